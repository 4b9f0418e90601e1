#pragma once

/// Finds text in one transcript: a field, how many there are, next and previous.

#include <QWidget>

class QLineEdit;

namespace octavo::ui {

class TextLabel;
class TranscriptView;

class FindBar final : public QWidget
{
    Q_OBJECT

public:
    explicit FindBar(TranscriptView* view, QWidget* parent = nullptr);
    void open();
    void close();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

private:
    void showCount();

    TranscriptView* m_view;
    QLineEdit* m_field;
    TextLabel* m_count;
};

} // namespace octavo::ui
