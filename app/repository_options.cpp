#include "app/repository_options.h"

#include "agents/ingest/glob.h"
#include "agents/ingest/repository.h"

#include <QFile>

namespace octavo::app {

namespace {

QStringList list(const std::vector<std::string>& texts)
{
    QStringList out;
    for (const std::string& text : texts)
        out.append(QString::fromStdString(text));
    return out;
}

} // namespace

std::vector<cli::OptionSpec> repositoryOptions()
{
    return {
        {"--repo", "PATH", "git repository to read: a work tree, a bare repository or a linked worktree"},
        {"--ref", "REF", "branch, tag or commit (default: HEAD)"},
        {"--include", "GLOB", "only files that fit; may be given again", true},
        {"--exclude", "GLOB", "not the files that fit; may be given again", true},
        {"--budget", "N", "tokens that the files may take (default: the context limit less room for answers)"},
        {"--trust", "", "read a repository that belongs to another user"},
    };
}

Result<agents::IngestOptions> readRepositoryOptions(const cli::Arguments& arguments)
{
    agents::IngestOptions out;
    if (!arguments.has("--repo"))
        return Error{ErrorCode::InvalidArgument, "--repo PATH is missing: it names the git repository to read"};
    out.repository = QFile::decodeName(arguments.text("--repo").c_str());
    out.ref = QString::fromStdString(arguments.text("--ref"));
    out.include = list(arguments.texts("--include"));
    out.exclude = list(arguments.texts("--exclude"));
    out.trusted = arguments.has("--trust");
    OCTAVO_TRY(out.tokenBudget, arguments.integer("--budget", 0, 0));
    if (arguments.has("--ref") && out.ref.trimmed().isEmpty())
        return Error{ErrorCode::InvalidArgument,
                     "--ref is empty: name a branch, tag or commit, or leave it out for HEAD"};
    for (const char* name : {"--include", "--exclude"}) {
        for (const std::string& glob : arguments.texts(name)) {
            if (QString::fromStdString(glob).trimmed().isEmpty())
                return Error{ErrorCode::InvalidArgument,
                             std::string(name) +
                                 " is empty: name a glob such as '*.cpp', or leave it out for all files"};
        }
    }
    OCTAVO_CHECK(agents::GlobFilter::create(out.include, out.exclude));
    return out;
}

Error withHint(Error error, const agents::IngestOptions& options)
{
    if (error.code != ErrorCode::RepositoryInvalid && error.code != ErrorCode::NotFound)
        return error;
    const auto repository = agents::Repository::open(options.repository, options.trusted);
    if (!repository && !options.trusted && agents::Repository::open(options.repository, true))
        error.message += "; --trust reads it";
    else if (repository && options.ref.isEmpty() && !repository->hasCommits())
        error.message += ": commit something, or name a branch that has commits with --ref";
    else if (repository && options.ref.isEmpty() && error.message.ends_with(agents::Repository::nameARef))
        error.message += " with --ref";
    return error;
}

std::string terminalText(const QString& text)
{
    QString out;
    out.reserve(text.size());
    for (const QChar c : text) {
        const ushort code = c.unicode();
        const bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0x200e
                           || code == 0x200f || code == 0x061c;
        if (turns)
            out += QStringLiteral("<U+%1>").arg(code, 4, 16, QLatin1Char('0')).toUpper();
        else if ((code < 0x20 && code != u'\n' && code != u'\t') || (code >= 0x7f && code < 0xa0))
            out += QChar::ReplacementCharacter;
        else
            out += c;
    }
    return out.toStdString();
}

} // namespace octavo::app
