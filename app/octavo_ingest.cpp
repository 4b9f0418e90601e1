#include "app/octavo_ingest.h"

#include "agents/ingest/ingest.h"
#include "app/repository_options.h"
#include "engine/cli/common.h"
#include "engine/model/model_config.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include <algorithm>
#include <iomanip>

namespace octavo::app {

namespace {

constexpr qint64 defaultContextLimit = 250'000;

void printJson(const agents::IngestResult& result, std::ostream& out)
{
    QJsonArray packed, skipped;
    for (const agents::PackedFile& file : result.packed)
        packed.append(QJsonObject{{"path", file.displayPath}, {"tokens", file.tokens}});
    for (const agents::SkippedFile& file : result.skipped)
        skipped.append(QJsonObject{{"path", file.displayPath}, {"reason", file.reason}});
    const QJsonObject object{{"repository", result.repositoryName},
                             {"ref", result.ref},
                             {"commit", result.commit},
                             {"files_total", result.filesTotal},
                             {"packed", packed},
                             {"skipped", skipped},
                             {"tokens", result.tokens},
                             {"files_with_special_text", result.filesWithSpecialText}};
    out << QJsonDocument(object).toJson(QJsonDocument::Compact).constData() << '\n';
}

void printTable(const agents::IngestResult& result, std::ostream& out)
{
    out << result.repositoryName.toStdString() << " @ " << terminalText(result.ref) << " ("
        << result.commit.left(8).toStdString() << "): " << terminalText(result.commitSubject) << "\n\n";
    for (const agents::PackedFile& file : result.packed)
        out << std::setw(9) << file.tokens << "  " << file.displayPath.toStdString() << '\n';
    if (!result.skipped.isEmpty())
        out << "\nLeft out:\n";
    qsizetype width = 0;
    for (const agents::SkippedFile& file : result.skipped)
        width = std::min<qsizetype>(std::max(width, file.displayPath.size()), 50);
    for (const agents::SkippedFile& file : result.skipped)
        out << "  " << file.displayPath.leftJustified(width).toStdString() << "  " << file.reason.toStdString() << '\n';
    out << '\n'
        << result.packed.size() << " of " << result.filesTotal << " files packed, " << result.skipped.size()
        << " left out, " << result.tokens << " tokens\n";
}

Result<void> runIngest(const cli::Arguments& arguments, cli::Streams& streams)
{
    OCTAVO_TRY(const agents::IngestOptions options, readRepositoryOptions(arguments));
    OCTAVO_TRY(const auto modelDir, cli::modelDir(arguments));
    OCTAVO_TRY(const auto tokenizer, engine::Tokenizer::load(modelDir / "tokenizer.json"));
    OCTAVO_TRY(const auto config, engine::ModelConfig::load(modelDir));
    OCTAVO_TRY(const auto prompt, agents::PromptBuilder::create(tokenizer, agents::PromptTemplate::forModel(modelDir)));
    agents::IngestServices services;
    services.prompt = &prompt;
    services.contextLimit =
        config.maxPositions > 0 ? std::min<qint64>(config.maxPositions, defaultContextLimit) : defaultContextLimit;
    const auto result = agents::ingest(options, services);
    if (!result)
        return withHint(result.error(), options);
    if (arguments.has("--json"))
        printJson(*result, streams.out);
    else
        printTable(*result, streams.out);
    return {};
}

} // namespace

cli::Command ingestCommand()
{
    cli::Command out;
    out.name = "ingest";
    out.summary = "says what of a commit would be read, in tokens, and what is left out and why";
    out.options = cli::joined(repositoryOptions(), {cli::modelOption(), cli::jsonOption()});
    out.run = runIngest;
    return out;
}

} // namespace octavo::app
