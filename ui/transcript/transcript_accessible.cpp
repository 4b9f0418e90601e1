#include "ui/transcript/transcript_view.h"

#include <QAccessible>
#include <QAccessibleWidget>

namespace octavo::ui {
namespace {

/// Read as a document whose value is the newest answer: streaming changes it silently, its end is announced once.
class AccessibleTranscript final : public QAccessibleWidget
{
public:
    explicit AccessibleTranscript(TranscriptView* view)
        : QAccessibleWidget(view, QAccessible::Document)
    {
    }

    QString text(QAccessible::Text kind) const override
    {
        const auto* view = qobject_cast<TranscriptView*>(object());
        if (kind == QAccessible::Value && view)
            return view->plainText();
        if (kind == QAccessible::Description && view && !view->messages().isEmpty())
            return view->messages().back().text;
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

} // namespace octavo::ui
