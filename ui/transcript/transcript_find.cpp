#include "ui/transcript/transcript_view.h"

#include <QScrollBar>

namespace octavo::ui {

void TranscriptView::refreshFound(std::size_t firstItem)
{
    if (m_findText.isEmpty()) {
        m_found.clear();
        m_foundCurrent = -1;
        return;
    }
    m_found.resize(m_items.size());
    for (std::size_t i = qMin(firstItem, m_items.size()); i < m_items.size(); ++i) {
        m_found[i].clear();
        const QString& text = m_items[i]->text();
        for (qsizetype at = text.indexOf(m_findText, 0, Qt::CaseInsensitive); at >= 0;
             at = text.indexOf(m_findText, at + m_findText.size(), Qt::CaseInsensitive))
            m_found[i].push_back({int(at), int(m_findText.size())});
    }
}

int TranscriptView::foundCount() const
{
    int count = 0;
    for (const auto& found : m_found)
        count += int(found.size());
    return count;
}

int TranscriptView::find(const QString& text)
{
    m_findText = text;
    refreshFound(0);
    m_foundCurrent = -1;
    const int count = foundCount();
    if (count > 0) {
        // Begin at what is in view, not at the far top.
        int before = 0;
        const int item = m_items.empty() ? 0 : itemAtY(verticalScrollBar()->value());
        for (int i = 0; i < item; ++i)
            before += int(m_found[std::size_t(i)].size());
        m_foundCurrent = (before % count) - 1;
        findStep(1);
    }
    viewport()->update();
    return count;
}

void TranscriptView::findStep(int direction)
{
    const int count = foundCount();
    if (count == 0)
        return;
    m_foundCurrent = (m_foundCurrent + direction + count) % count;
    int index = m_foundCurrent;
    for (std::size_t i = 0; i < m_found.size(); ++i) {
        if (index >= int(m_found[i].size())) {
            index -= int(m_found[i].size());
            continue;
        }
        setFollow(false);
        m_items[i]->layout(contentWidth());
        placeItems(i);
        updateScrollRange();
        ensureVisible(m_items[i]->lineRect(m_found[i][std::size_t(index)].start).translated(0, m_tops[i]));
        break;
    }
    viewport()->update();
}

} // namespace octavo::ui
