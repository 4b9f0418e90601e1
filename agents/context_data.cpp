#include "agents/context_data.h"

#include "agents/ingest/repository.h"

#include <QFileInfo>

namespace octavo::agents {

Result<std::shared_ptr<const ContextData>> buildContext(const IngestOptions& options, const IngestResult& result,
                                                        const PromptBuilder& prompt, const std::atomic<bool>* cancel)
{
    if (!QFileInfo::exists(options.repository))
        return Error{ErrorCode::NotFound, result.repositoryName.toStdString() + " is no longer at " +
                                              options.repository.toStdString() +
                                              ": move it back, or choose another context"};
    OCTAVO_TRY(const Repository repository, Repository::open(options.repository, options.trusted));
    auto out = std::make_shared<ContextData>();
    auto index = std::make_shared<SourceIndex>();
    out->ids.reserve(std::size_t(result.tokens));
    prompt.appendContextStart(out->ids, result.repositoryName.toStdString());
    for (const PackedFile& file : result.packed) {
        const auto content = repository.blob(file.blobId);
        if (!content)
            return Error{ErrorCode::NotFound, file.displayPath.toStdString() + " of commit " +
                                                  result.commit.left(8).toStdString() + " is no longer in " +
                                                  options.repository.toStdString() + ": add the repository again"};
        const std::string_view text(content->constData(), std::size_t(content->size()));
        if (!prompt.appendFile(out->ids, file.displayPath.toStdString(), text, cancel))
            return Error{ErrorCode::Cancelled, "preparing the context was cancelled"};
        index->addFile(file.path, file.displayPath, *content);
    }
    prompt.appendContextEnd(out->ids);
    index->finish();
    out->index = std::move(index);
    return std::shared_ptr<const ContextData>(std::move(out));
}

} // namespace octavo::agents
