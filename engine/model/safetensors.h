#pragma once

/// Reading safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes without gaps.
///
/// Everything the header claims is checked against the file's size before anything is allocated by it: the header's
/// length, names, dtypes, shapes, and that the tensors cover the data exactly, in order, without gap or overlap.
/// Source   https://github.com/huggingface/safetensors (format section of its README).

#include "engine/model/mapped_file.h"
#include "engine/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::engine
{

enum class DType { Bool, U8, I8, F8E4M3, F8E5M2, I16, U16, F16, Bf16, I32, U32, F32, I64, U64, F64 };

std::string_view dtypeName(DType dtype); ///< as the header writes it: "BF16"
std::size_t dtypeSize(DType dtype);      ///< bytes per element

struct TensorInfo {
    std::string name;
    DType dtype = DType::F32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0; ///< bytes from the start of the data

    std::uint64_t elements() const;
};

/// "[64, 2048]"
std::string shapeText(std::span<const std::int64_t> shape);

struct SafetensorsHeader {
    std::vector<TensorInfo> tensors; ///< by offset
    std::uint64_t dataStart = 0;     ///< bytes from the start of the file

    static constexpr std::uint64_t maxHeaderBytes = 100'000'000;
    static constexpr int maxDimensions = 8;

    /// `bytes`: the whole file, or at least its header; `fileSize`: of the whole file; `name` stands for it in
    /// messages. Fails with FormatInvalid: file, what was found, what was expected, what to do.
    static Result<SafetensorsHeader> parse(std::span<const std::byte> bytes, std::uint64_t fileSize,
                                           const std::string& name);
};

/// A tensor inside a mapped file.
struct TensorView {
    DType dtype = DType::F32;
    std::span<const std::int64_t> shape;
    std::span<const std::byte> bytes;
    const std::string* file = nullptr; ///< path, for messages
};

/// All tensors of a checkpoint folder: DIR/model.safetensors, or the shards that DIR/model.safetensors.index.json
/// names. The index wins where both exist, as it may name extra shards. Views live as long as the object.
class Checkpoint
{
public:
    /// Fails with FileUnreadable (no model, a shard missing) or FormatInvalid (also: the index names a tensor that its
    /// shard lacks).
    static Result<Checkpoint> open(const std::filesystem::path& dir);

    const TensorView* find(std::string_view name) const;
    const std::map<std::string, TensorView, std::less<>>& tensors() const { return m_tensors; }

    std::uint64_t fileBytes() const; ///< of all shards
    void letGoOfPages() const;       ///< see MappedFile
    std::size_t numFiles() const { return m_files.size(); }
    const std::filesystem::path& dir() const { return m_dir; }

private:
    struct File {
        std::string path;
        MappedFile map;
        SafetensorsHeader header;
    };
    static Result<std::unique_ptr<File>> openFile(const std::filesystem::path& path);
    static TensorView viewOf(const File& file, const TensorInfo& tensor);

    std::filesystem::path m_dir;
    std::vector<std::unique_ptr<File>> m_files;
    std::map<std::string, TensorView, std::less<>> m_tensors;
};

} // namespace octavo::engine
