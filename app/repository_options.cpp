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
    OCTAVO_CHECK(agents::GlobFilter::create(out.include, out.exclude));
    return out;
}

bool isEmptyRepository(const agents::IngestOptions& options)
{
    if (!options.ref.isEmpty())
        return false;
    const auto repository = agents::Repository::open(options.repository, options.trusted);
    return repository && !repository->hasCommits();
}

std::string terminalText(const QString& text)
{
    QString out = text;
    for (QChar& c : out) {
        const ushort code = c.unicode();
        if ((code < 0x20 && code != u'\n' && code != u'\t') || (code >= 0x7f && code < 0xa0))
            c = QChar::ReplacementCharacter;
    }
    return out.toStdString();
}

} // namespace octavo::app
