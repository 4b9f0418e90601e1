#include "ui/transcript/transcript_view.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QPointer>

namespace octavo::ui {
namespace {

/// Something that can be pressed; painted by an item, and so no widget. Known by its place among all of them.
class AccessibleAction final : public QAccessibleInterface, public QAccessibleActionInterface
{
public:
    AccessibleAction(TranscriptView* view, int ordinal)
        : m_view(view)
        , m_ordinal(ordinal)
    {
    }

    int ordinal() const { return m_ordinal; }
    bool isValid() const override { return action() != nullptr; }
    QObject* object() const override { return nullptr; }
    QWindow* window() const override { return m_view ? m_view->window()->windowHandle() : nullptr; }
    QAccessibleInterface* parent() const override { return QAccessible::queryAccessibleInterface(m_view); }
    QAccessibleInterface* child(int) const override { return nullptr; }
    QAccessibleInterface* childAt(int, int) const override { return nullptr; }
    int childCount() const override { return 0; }
    int indexOfChild(const QAccessibleInterface*) const override { return -1; }
    void setText(QAccessible::Text, const QString&) override {}

    QString text(QAccessible::Text kind) const override
    {
        const ItemAction* what = action();
        if (!what || kind != QAccessible::Name)
            return {};
        const bool words = !what->shown.isEmpty() && what->shown != what->target;
        return words ? what->shown + QStringLiteral(" \u2013 ") + what->label : what->label;
    }

    QRect rect() const override
    {
        if (!m_view)
            return {};
        const QRect inside = m_view->rectOf(place());
        return inside.isNull() ? inside : QRect(m_view->viewport()->mapToGlobal(inside.topLeft()), inside.size());
    }

    QAccessible::Role role() const override
    {
        const ItemAction* what = action();
        const bool leads =
            what && (what->kind == ItemAction::Kind::OpenLink || what->kind == ItemAction::Kind::OpenCitation);
        return leads ? QAccessible::Link : QAccessible::Button;
    }

    QAccessible::State state() const override
    {
        QAccessible::State s;
        s.invalid = !isValid();
        if (s.invalid)
            return s;
        const TranscriptView::Pressable here = place(), focused = m_view->focusedPressable();
        s.focusable = true;
        s.focused = m_view->hasFocus() && here.item == focused.item && here.action == focused.action;
        s.offscreen = !m_view->viewport()->rect().intersects(m_view->rectOf(here));
        s.invisible = !m_view->isVisible();
        return s;
    }

    void* interface_cast(QAccessible::InterfaceType type) override
    {
        return type == QAccessible::ActionInterface ? static_cast<QAccessibleActionInterface*>(this) : nullptr;
    }
    QStringList actionNames() const override { return {pressAction()}; }
    QStringList keyBindingsForAction(const QString&) const override { return {}; }
    void doAction(const QString& name) override
    {
        if (m_view && name == pressAction())
            m_view->press(place());
    }

private:
    TranscriptView::Pressable place() const
    {
        return m_view ? m_view->pressables().value(m_ordinal) : TranscriptView::Pressable{};
    }
    const ItemAction* action() const { return m_view ? m_view->actionOf(place()) : nullptr; }

    QPointer<TranscriptView> m_view;
    int m_ordinal;
};

/// Read as a document whose value is the newest answer: streaming changes it silently, its end is announced once. What
/// can be pressed in it are its children, after its widgets.
class AccessibleTranscript final : public QAccessibleWidget, public QAccessibleTextInterface
{
public:
    explicit AccessibleTranscript(TranscriptView* view)
        : QAccessibleWidget(view, QAccessible::Document)
    {
    }
    ~AccessibleTranscript() override
    {
        for (const QAccessible::Id id : m_actions)
            QAccessible::deleteAccessibleInterface(id);
    }

    QString text(QAccessible::Text kind) const override
    {
        if (kind == QAccessible::Value && view())
            return view()->plainText();
        if (kind == QAccessible::Description && view() && !view()->messages().isEmpty())
            return view()->messages().back().text;
        return QAccessibleWidget::text(kind);
    }

    QAccessible::State state() const override
    {
        QAccessible::State s = QAccessibleWidget::state();
        s.readOnly = true;
        s.multiLine = true;
        s.selectableText = true;
        return s;
    }

    int childCount() const override
    {
        return QAccessibleWidget::childCount() + (view() ? int(view()->pressables().size()) : 0);
    }

    QAccessibleInterface* child(int index) const override
    {
        const int widgets = QAccessibleWidget::childCount();
        if (index < widgets)
            return QAccessibleWidget::child(index);
        return index < childCount() ? action(index - widgets) : nullptr;
    }

    int indexOfChild(const QAccessibleInterface* child) const override
    {
        if (const auto* known = dynamic_cast<const AccessibleAction*>(child))
            return QAccessibleWidget::childCount() + known->ordinal();
        return QAccessibleWidget::indexOfChild(child);
    }

    QAccessibleInterface* focusChild() const override
    {
        const TranscriptView::Pressable at = view() ? view()->focusedPressable() : TranscriptView::Pressable{};
        const QList<TranscriptView::Pressable> all =
            at.action >= 0 ? view()->pressables() : QList<TranscriptView::Pressable>();
        for (qsizetype i = 0; i < all.size(); ++i) {
            if (all[i].item == at.item && all[i].action == at.action)
                return action(int(i));
        }
        return QAccessibleWidget::focusChild();
    }

    void* interface_cast(QAccessible::InterfaceType type) override
    {
        if (type == QAccessible::TextInterface)
            return static_cast<QAccessibleTextInterface*>(this);
        return QAccessibleWidget::interface_cast(type);
    }

    // The text as a whole; where it is selected is the view's own.
    QString text(int start, int end) const override { return whole().mid(start, end - start); }
    int characterCount() const override { return int(whole().size()); }
    int selectionCount() const override { return 0; }
    void selection(int, int* start, int* end) const override { *start = *end = 0; }
    void addSelection(int, int) override {}
    void removeSelection(int) override {}
    void setSelection(int, int, int) override {}
    int cursorPosition() const override { return 0; }
    void setCursorPosition(int) override {}
    QRect characterRect(int) const override { return rect(); }
    int offsetAtPoint(const QPoint&) const override { return -1; }
    void scrollToSubstring(int, int) override {}
    QString attributes(int, int* start, int* end) const override
    {
        *start = 0;
        *end = characterCount();
        return {};
    }

private:
    TranscriptView* view() const { return qobject_cast<TranscriptView*>(object()); }
    QString whole() const { return view() ? view()->plainText() : QString(); }

    QAccessibleInterface* action(int ordinal) const
    {
        while (m_actions.size() <= ordinal)
            m_actions += QAccessible::registerAccessibleInterface(new AccessibleAction(view(), int(m_actions.size())));
        return QAccessible::accessibleInterface(m_actions[ordinal]);
    }

    mutable QList<QAccessible::Id> m_actions; ///< made when first asked for
};

QAccessibleInterface* makeInterface(const QString&, QObject* object)
{
    if (auto* view = qobject_cast<TranscriptView*>(object))
        return new AccessibleTranscript(view);
    return nullptr;
}

} // namespace

void installTranscriptAccessibility()
{
    static const bool once = [] {
        QAccessible::installFactory(makeInterface);
        return true;
    }();
    Q_UNUSED(once)
}

void announceFocusedAction(TranscriptView* view)
{
    if (!QAccessible::isActive())
        return;
    QAccessibleInterface* self = QAccessible::queryAccessibleInterface(view);
    if (QAccessibleInterface* action = self ? self->focusChild() : nullptr) {
        QAccessibleEvent event(action, QAccessible::Focus);
        QAccessible::updateAccessibility(&event);
    }
}

} // namespace octavo::ui
