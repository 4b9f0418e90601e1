#include "ui/problem_text.h"

#include "ui/controls.h"

#include <QCoreApplication>
#include <QRegularExpression>

#include <vector>

namespace octavo::ui {
namespace {

/// Where translators find the words of this file.
struct ProblemTitles {
    Q_DECLARE_TR_FUNCTIONS(octavo::ui::ProblemWords)
};

constexpr const char* sentences[] = {
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "the context is full: %1 of %2 tokens are used, this question needs %3 (with a shortest "
                      "answer): begin a new conversation"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "the context is full: %1 of %2 tokens are used, this question needs %3 (with a shortest "
                      "answer): ask less at once or take a smaller context"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is still answering: stop it first"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 has no context: choose a repository first"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the question is empty"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the last answer did not end early: there is nothing to go on with"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "there is no answer yet to be written anew"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "there is no question yet to be changed"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the context was removed"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "reading the context was cancelled"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 of commit %2 is no longer in %3: add the repository again"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is no longer at %2: move it back, or choose another context"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "%1 belongs to %2 and you are %3: trust it for Octavo if you know where it comes from"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "\"%1\" does not exist: name a folder that holds a git repository"),
    QT_TRANSLATE_NOOP(
        "octavo::ui::ProblemWords",
        "\"%1\" has bytes in its name that are not UTF-8, which Octavo cannot open: rename the folder, or "
        "name a link to it"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be read: permission denied"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is not a git repository, nor is a folder above it"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be opened as a git repository: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 has no commits yet"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 has no branch, tag or commit \"%2\""),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 could not be cloned: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 exists already and is not empty"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "This is a shallow clone: its files can be read, its history ends early."),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is not in this context"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the disk is full, %1 cannot grow: free some room"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be written: the disk reports a fault or is full"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 may not be written: check its permissions"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be opened: check folder and permissions"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "another program holds %1"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is damaged: move it away and Octavo begins a new one"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "over the budget of %1 tokens"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "binary"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "left out by you"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "excluded by \"%1\""),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "link to %1"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "submodule, not fetched (at %1)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "larger than %1 (%2)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "content not in this clone"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "Git LFS pointer, content not fetched (%1)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "minified or generated (a line of %1)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "encoding not known (looks like UTF-16)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "encoding not known (byte 0x%1 at %2 is not UTF-8)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 stopped working: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be loaded again; start Octavo again"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 holds another model by now; start Octavo again"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "no device works any more; reload the model"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 has %2 requests waiting already; try again when one has ended"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "a context of %1 tokens does not fit: used %2, limit %3, needed %4; close other agents' "
                      "contexts or ask about fewer files"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "the context is full: used %1 tokens, limit %2, needed %3; shorten it by %4 tokens or start "
                      "anew"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "no memory for the rows of %1 tokens: %2 MiB are needed; close an agent or take a smaller "
                      "context"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "no memory to go on from a shared context: %1 MiB are needed; close an agent or take a smaller "
                      "context"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "part of the answer could not be passed on, most likely for want of memory; ask again"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "memory ran out while %1 was loaded; close other programs"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "loading %1 was cancelled"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the model is still being loaded: its tokenizer is needed to count"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "preparing the context was cancelled"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "reading the repository was cancelled"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "listing the files was cancelled"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "cloning was cancelled"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the question was stopped before it was asked"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "a budget of %1 tokens holds no file: the frame alone takes %2; allow more"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 has no branch, tag or commit \"%2\" (it is a shallow clone)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1: \"%2\" does not lead to a commit"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1: its HEAD is damaged (%2): name a branch, tag or commit"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "%1: the commit of %2 cannot be read (%3): clone the repository again, or name a branch, tag or "
                      "commit"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1: the commit of %2 cannot be read (%3): check its permissions"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is missing in this repository: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is damaged in this repository: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "glob \"%1\": %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "tokenizer.json has no <|im_start|> and <|im_end|>: Octavo needs a model that speaks ChatML"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "the session store was written by a newer Octavo (version %1, this one knows %2): update Octavo"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "the folder of %1 cannot be made: check who may write there"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be read: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be listed: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 cannot be removed: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 could not be written: %2"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1: the saved context is damaged (%2)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1: another version of Octavo saved this context"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1: the saved context cannot be read now (%2)"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "%1 is not a folder: name a model's folder, with its config.json, tokenizer.json and safetensors "
                      "files"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "%1 holds no config.json: name a model's folder, with its config.json, tokenizer.json and "
                      "safetensors files"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 is missing: download it into the model's folder"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords", "%1 names no stop id: answers would run to their length limit"),
    QT_TRANSLATE_NOOP("octavo::ui::ProblemWords",
                      "%1 has ids up to %2, but the model's vocabulary has only %3 rows: it belongs to another model"),
};

struct Known {
    const char* english;
    QRegularExpression pattern;
    int places = 0;
};

const std::vector<Known>& known()
{
    static const std::vector<Known> all = [] {
        static const QRegularExpression place(QStringLiteral("%(\\d)"));
        std::vector<Known> made;
        for (const char* english : sentences) {
            const QString sentence = QString::fromUtf8(english);
            Known entry{english, {}, 0};
            QString pattern;
            qsizetype at = 0;
            for (auto match = place.globalMatch(sentence); match.hasNext();) {
                const QRegularExpressionMatch found = match.next();
                pattern +=
                    QRegularExpression::escape(sentence.mid(at, found.capturedStart() - at)) + QStringLiteral("(.+)");
                at = found.capturedEnd();
                ++entry.places; // they stand in order
            }
            pattern += QRegularExpression::escape(sentence.mid(at));
            entry.pattern = QRegularExpression(QRegularExpression::anchoredPattern(pattern));
            made.push_back(std::move(entry));
        }
        return made;
    }();
    return all;
}

} // namespace

QString problemTitle(ErrorCode code)
{
    switch (code) {
    case ErrorCode::FileUnreadable:
        return ProblemTitles::tr("A file cannot be read");
    case ErrorCode::FileUnwritable:
        return ProblemTitles::tr("A file cannot be written");
    case ErrorCode::FormatInvalid:
        return ProblemTitles::tr("A file is damaged or of another format");
    case ErrorCode::ShapeMismatch:
        return ProblemTitles::tr("The model's tensors do not fit together");
    case ErrorCode::Unsupported:
        return ProblemTitles::tr("Not supported");
    case ErrorCode::OutOfMemory:
        return ProblemTitles::tr("Not enough memory");
    case ErrorCode::DeviceOutOfMemory:
        return ProblemTitles::tr("Not enough device memory");
    case ErrorCode::DeviceFailure:
        return ProblemTitles::tr("The device stopped working");
    case ErrorCode::ContextFull:
        return ProblemTitles::tr("The context is full");
    case ErrorCode::Busy:
        return ProblemTitles::tr("Too much at once");
    case ErrorCode::NotFound:
        return ProblemTitles::tr("Not found");
    case ErrorCode::RepositoryInvalid:
        return ProblemTitles::tr("Not a readable git repository");
    case ErrorCode::DatabaseFailure:
        return ProblemTitles::tr("The session store failed");
    case ErrorCode::InvalidArgument:
        return ProblemTitles::tr("A value is out of range");
    case ErrorCode::Cancelled:
        return ProblemTitles::tr("Cancelled");
    }
    return {};
}

QString problemText(const QString& sentence)
{
    for (const Known& entry : known()) {
        const QRegularExpressionMatch match = entry.pattern.match(sentence);
        if (!match.hasMatch())
            continue;
        const QString words = ProblemTitles::tr(entry.english);
        if (words == QLatin1String(entry.english))
            return sentence; // English, or no translation
        QString out;
        for (qsizetype i = 0; i < words.size(); ++i) { // not arg(): what is put in may hold a %1 of its own
            const int place = words[i] == u'%' && i + 1 < words.size() ? words[i + 1].digitValue() : -1;
            if (place < 1 || place > entry.places) {
                out += words[i];
                continue;
            }
            const QString value = match.captured(place);
            bool isNumber = false;
            const qint64 number = value.toLongLong(&isNumber);
            out += isNumber ? countText(number) : value;
            ++i;
        }
        return out;
    }
    return sentence;
}

QStringList knownProblems()
{
    QStringList out;
    for (const char* english : sentences)
        out += QString::fromUtf8(english);
    return out;
}

} // namespace octavo::ui
