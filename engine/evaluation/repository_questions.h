#pragma once

/// A repository as the model was trained to read it, and questions about it whose answers it holds: for evaluations at
/// the positions that count, those of answers.

#include "engine/result.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/types.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace octavo::engine
{

struct RepositoryFile {
    std::string path; ///< relative to the folder
    std::string text;
};

/// The text files below `where` in order of their paths, or the one file that it is. Hidden folders, links, and files
/// with a NUL byte or above 1 MiB are passed over. Fails with FileUnreadable where nothing is left.
Result<std::vector<RepositoryFile>> readRepository(const std::filesystem::path& where);

/// The system turn up to the end of the files, without the end of the turn.
std::vector<TokenId> repositoryIds(const Tokenizer& tokenizer, const std::string& name,
                                   const std::vector<RepositoryFile>& files);

/// One question after such a context.
struct Lookup {
    std::string name;         ///< of a class, function or macro that one line alone defines
    std::string path;         ///< of the file it is in: a right answer names it
    std::string question;
    double depth = 0.0;       ///< where in the files' bytes: 0 the beginning, 1 the end
    std::vector<TokenId> ids; ///< what follows the context: the turn's end, the question, the answer's head
};

/// At most `count` look-ups, evenly spread over what the first `fraction` of the files' bytes define.
std::vector<Lookup> makeLookups(const Tokenizer& tokenizer, const std::vector<RepositoryFile>& files, double fraction,
                                int count);

} // namespace octavo::engine
