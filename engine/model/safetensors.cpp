#include "engine/model/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>

namespace octavo::engine
{

namespace
{

struct DTypeRow {
    DType dtype;
    std::string_view name;
    std::size_t size;
};

constexpr std::array<DTypeRow, 15> dtypeTable = {{
    {DType::Bool, "BOOL", 1},
    {DType::U8, "U8", 1},
    {DType::I8, "I8", 1},
    {DType::F8E4M3, "F8_E4M3", 1},
    {DType::F8E5M2, "F8_E5M2", 1},
    {DType::I16, "I16", 2},
    {DType::U16, "U16", 2},
    {DType::F16, "F16", 2},
    {DType::Bf16, "BF16", 2},
    {DType::I32, "I32", 4},
    {DType::U32, "U32", 4},
    {DType::F32, "F32", 4},
    {DType::I64, "I64", 8},
    {DType::U64, "U64", 8},
    {DType::F64, "F64", 8},
}};

std::optional<DType> dtypeFromName(std::string_view name)
{
    for (const DTypeRow& row : dtypeTable) {
        if (row.name == name)
            return row.dtype;
    }
    return std::nullopt;
}

/// Names come from the file: long ones are cut and control characters replaced, so that a message stays one line.
std::string inQuotes(std::string_view text)
{
    std::string out = "\"";
    for (char c : text.substr(0, 120))
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    return out + (text.size() > 120 ? "...\"" : "\"");
}

/// Builds the tensor list from JSON events, without a document in between. The grammar is fixed, so depth is too:
/// { name: { "dtype": text, "shape": [n...], "data_offsets": [b, e] }..., "__metadata__": { text: text... } }
class HeaderHandler : public nlohmann::json_sax<nlohmann::json>
{
public:
    std::vector<TensorInfo> tensors;
    std::string problem;

    bool null() override { return fail("a null"); }
    bool boolean(bool) override { return fail("a boolean"); }
    bool number_float(number_float_t, const string_t&) override { return fail("a fraction or too large a number"); }
    bool binary(binary_t&) override { return fail("binary data"); }
    bool number_integer(number_integer_t) override { return fail("a negative number"); }

    bool number_unsigned(number_unsigned_t value) override
    {
        if (m_state == State::Shape) {
            if (m_tensor.shape.size() == std::size_t(SafetensorsHeader::maxDimensions))
                return fail("more than " + std::to_string(SafetensorsHeader::maxDimensions) + " dimensions");
            if (value > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
                return fail("a dimension of " + std::to_string(value));
            m_tensor.shape.push_back(std::int64_t(value));
            return true;
        }
        if (m_state == State::Offsets) {
            if (m_numOffsets == 2)
                return fail("more than two data_offsets");
            (m_numOffsets++ == 0 ? m_tensor.begin : m_tensor.end) = value;
            return true;
        }
        return fail("a number");
    }

    bool string(string_t& value) override
    {
        if (m_state == State::Metadata)
            return true;
        if (m_state != State::Tensor || m_key != "dtype")
            return fail("a text");
        const std::optional<DType> dtype = dtypeFromName(value);
        if (!dtype)
            return fail("the unknown dtype " + inQuotes(value));
        m_tensor.dtype = *dtype;
        return true;
    }

    bool start_object(std::size_t) override
    {
        switch (m_state) {
        case State::Start:
            m_state = State::Root;
            return true;
        case State::Root:
            m_state = m_tensor.name == "__metadata__" ? State::Metadata : State::Tensor;
            m_hasDtype = m_hasShape = m_hasOffsets = false;
            return true;
        default:
            return fail("an object");
        }
    }

    bool key(string_t& name) override
    {
        if (m_state == State::Root) {
            if (!m_names.insert(name).second)
                return fail("the name a second time", name);
            m_tensor = TensorInfo{};
            m_tensor.name = name;
            return true;
        }
        if (m_state == State::Metadata)
            return true;
        bool* seen = name == "dtype"          ? &m_hasDtype
                     : name == "shape"        ? &m_hasShape
                     : name == "data_offsets" ? &m_hasOffsets
                                              : nullptr;
        if (!seen)
            return fail("the unknown key " + inQuotes(name));
        if (*seen)
            return fail("the key " + inQuotes(name) + " twice");
        *seen = true;
        m_key = name;
        return true;
    }

    bool end_object() override
    {
        if (m_state == State::Metadata) {
            m_state = State::Root;
        } else if (m_state == State::Tensor) {
            if (!m_hasDtype || !m_hasShape || !m_hasOffsets)
                return fail("only some of dtype, shape and data_offsets");
            if (m_numOffsets != 2)
                return fail("fewer than two data_offsets");
            m_numOffsets = 0;
            tensors.push_back(std::move(m_tensor));
            m_state = State::Root;
        } else {
            m_state = State::End;
        }
        return true;
    }

    bool start_array(std::size_t) override
    {
        if (m_state == State::Tensor && m_key == "shape")
            m_state = State::Shape;
        else if (m_state == State::Tensor && m_key == "data_offsets")
            m_state = State::Offsets;
        else
            return fail("a list");
        return true;
    }

    bool end_array() override
    {
        m_state = State::Tensor;
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override
    {
        if (problem.empty())
            problem = "its header is not JSON (byte " + std::to_string(position) + ")";
        return false;
    }

private:
    enum class State { Start, Root, Metadata, Tensor, Shape, Offsets, End };

    bool fail(const std::string& found) { return fail(found, m_tensor.name); }
    bool fail(const std::string& found, std::string_view tensor)
    {
        if (m_state == State::Start)
            problem = "its header holds " + found + " instead of an object";
        else
            problem = "its header has " + found + " for " + inQuotes(tensor);
        return false;
    }

    State m_state = State::Start;
    std::unordered_set<std::string> m_names;
    TensorInfo m_tensor;
    std::string m_key;
    bool m_hasDtype = false, m_hasShape = false, m_hasOffsets = false;
    int m_numOffsets = 0;
};

/// Bytes of `tensor` by dtype and shape, or nothing where that overflows 64 bits.
std::optional<std::uint64_t> byteSize(const TensorInfo& tensor)
{
    std::uint64_t size = dtypeSize(tensor.dtype);
    for (std::int64_t extent : tensor.shape) {
        if (__builtin_mul_overflow(size, std::uint64_t(extent), &size))
            return std::nullopt;
    }
    return size;
}

} // namespace

std::string_view dtypeName(DType dtype)
{
    return dtypeTable[std::size_t(dtype)].name;
}

std::size_t dtypeSize(DType dtype)
{
    return dtypeTable[std::size_t(dtype)].size;
}

std::uint64_t TensorInfo::elements() const
{
    return (end - begin) / dtypeSize(dtype);
}

std::string shapeText(std::span<const std::int64_t> shape)
{
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i)
        text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

Result<SafetensorsHeader> SafetensorsHeader::parse(std::span<const std::byte> bytes, std::uint64_t fileSize,
                                                   const std::string& name)
{
    auto invalid = [&](const std::string& what) {
        return Error{ErrorCode::FormatInvalid,
                     name + " is not a usable safetensors file: " + what + ": download it again"};
    };

    if (fileSize == 0)
        return invalid("it is empty");
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const std::string_view impostor = recognisedImpostor(text.substr(0, 64)); !impostor.empty())
        return invalid("it is " + std::string(impostor));
    if (fileSize < 8 || bytes.size() < 8)
        return invalid("it has " + std::to_string(fileSize) + " bytes, fewer than the 8 of a header length");

    std::uint64_t headerBytes = 0;
    for (int i = 7; i >= 0; --i)
        headerBytes = headerBytes << 8 | std::uint64_t(bytes[std::size_t(i)]);
    if (headerBytes > maxHeaderBytes)
        return invalid("its header claims " + std::to_string(headerBytes) + " bytes, more than the " +
                       std::to_string(maxHeaderBytes) + " allowed");
    if (headerBytes > fileSize - 8 || headerBytes > bytes.size() - 8)
        return invalid("its header claims " + std::to_string(headerBytes) + " bytes, but only " +
                       std::to_string(std::min<std::uint64_t>(fileSize, bytes.size()) - 8) + " follow (truncated)");

    HeaderHandler handler;
    const std::string_view json = text.substr(8, headerBytes);
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler) || !handler.problem.empty())
        return invalid(handler.problem);

    SafetensorsHeader header;
    header.tensors = std::move(handler.tensors);
    header.dataStart = 8 + headerBytes;
    const std::uint64_t dataBytes = fileSize - header.dataStart;
    std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t covered = 0;
    const std::string* before = nullptr;
    for (const TensorInfo& tensor : header.tensors) {
        const std::string range = std::to_string(tensor.begin) + ".." + std::to_string(tensor.end);
        if (tensor.begin > tensor.end)
            return invalid(inQuotes(tensor.name) + " ends before it begins (bytes " + range + ")");
        const std::optional<std::uint64_t> size = byteSize(tensor);
        if (!size || *size != tensor.end - tensor.begin)
            return invalid(inQuotes(tensor.name) + " has " + std::to_string(tensor.end - tensor.begin) +
                           " bytes, but " + std::string(dtypeName(tensor.dtype)) + " " + shapeText(tensor.shape) +
                           " takes " + (size ? std::to_string(*size) : "more than 2^64"));
        if (tensor.end > dataBytes)
            return invalid(inQuotes(tensor.name) + " lies at bytes " + range +
                           " of the data, but the file holds only " + std::to_string(dataBytes) + " (truncated)");
        if (tensor.begin < covered)
            return invalid(inQuotes(tensor.name) + " overlaps " + inQuotes(*before) + " (it begins at byte " +
                           std::to_string(tensor.begin) + ", expected " + std::to_string(covered) + ")");
        if (tensor.begin > covered)
            return invalid("bytes " + std::to_string(covered) + ".." + std::to_string(tensor.begin) + " before " +
                           inQuotes(tensor.name) + " belong to no tensor");
        covered = tensor.end;
        before = &tensor.name;
    }
    if (covered != dataBytes)
        return invalid("its tensors take " + std::to_string(covered) + " bytes, but " + std::to_string(dataBytes) +
                       " follow the header (trailing bytes)");
    return header;
}

Result<std::unique_ptr<Checkpoint::File>> Checkpoint::openFile(const std::filesystem::path& path)
{
    OCTAVO_TRY(MappedFile map, MappedFile::open(path));
    OCTAVO_TRY(SafetensorsHeader header, SafetensorsHeader::parse(map.bytes(), map.bytes().size(), path.string()));
    return std::make_unique<File>(File{path.string(), std::move(map), std::move(header)});
}

TensorView Checkpoint::viewOf(const File& file, const TensorInfo& tensor)
{
    return TensorView{tensor.dtype, tensor.shape,
                      file.map.bytes().subspan(file.header.dataStart + tensor.begin, tensor.end - tensor.begin),
                      &file.path};
}

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& dir)
{
    constexpr std::size_t maxIndexBytes = 64 << 20;
    constexpr std::size_t maxShards = 4096;

    Checkpoint checkpoint;
    checkpoint.m_dir = dir;
    std::error_code ignored;
    if (!std::filesystem::is_directory(dir, ignored))
        return Error{ErrorCode::FileUnreadable, dir.string() +
                                                    " is not a folder: name the folder that holds config.json "
                                                    "and model.safetensors"};

    const std::filesystem::path indexPath = dir / "model.safetensors.index.json";
    const std::filesystem::path singlePath = dir / "model.safetensors";
    if (!std::filesystem::exists(indexPath, ignored)) {
        if (!std::filesystem::exists(singlePath, ignored))
            return Error{ErrorCode::FileUnreadable,
                         dir.string() + " holds neither model.safetensors nor model.safetensors.index.json: "
                                        "is it the folder of a downloaded model?"};
        OCTAVO_TRY(std::unique_ptr<File> file, openFile(singlePath));
        for (const TensorInfo& tensor : file->header.tensors)
            checkpoint.m_tensors.emplace(tensor.name, viewOf(*file, tensor));
        checkpoint.m_files.push_back(std::move(file));
        return checkpoint;
    }

    const std::string name = indexPath.string();
    auto invalid = [&](const std::string& what) {
        return Error{ErrorCode::FormatInvalid, name + " is not a usable index: " + what + ": download it again"};
    };
    OCTAVO_TRY(const std::string text, readTextFile(indexPath, maxIndexBytes));
    if (const std::string_view impostor = recognisedImpostor(text); !impostor.empty())
        return invalid("it is " + std::string(impostor));
    const nlohmann::json index = nlohmann::json::parse(text, nullptr, false);
    const auto map = index.is_object() ? index.find("weight_map") : index.end();
    if (index.is_discarded() || !index.is_object() || map == index.end() || !map->is_object())
        return invalid(index.is_discarded() ? "it is not JSON" : "it has no object \"weight_map\"");

    std::map<std::string, std::vector<std::string>> tensorsOfShard;
    for (const auto& [tensor, shard] : map->items()) {
        const std::string* shardName = shard.get_ptr<const std::string*>();
        if (!shardName || shardName->empty() || shardName->find('/') != std::string::npos || shardName->front() == '.')
            return invalid("the shard of " + inQuotes(tensor) + " is not a file name");
        tensorsOfShard[*shardName].push_back(tensor);
        if (tensorsOfShard.size() > maxShards)
            return invalid("it names more than " + std::to_string(maxShards) + " shards");
    }
    for (const auto& [shard, tensors] : tensorsOfShard) {
        if (!std::filesystem::exists(dir / shard, ignored))
            return Error{ErrorCode::FileUnreadable, (dir / shard).string() + " is missing: the index names it for " +
                                                        std::to_string(tensors.size()) + " tensors (" +
                                                        inQuotes(tensors.front()) + "): download it again"};
        OCTAVO_TRY(std::unique_ptr<File> file, openFile(dir / shard));
        std::map<std::string_view, const TensorInfo*> present;
        for (const TensorInfo& tensor : file->header.tensors)
            present.emplace(tensor.name, &tensor);
        for (const std::string& tensor : tensors) {
            const auto found = present.find(tensor);
            if (found == present.end())
                return invalid("it places " + inQuotes(tensor) + " in " + shard + ", which does not hold it");
            checkpoint.m_tensors.emplace(tensor, viewOf(*file, *found->second));
        }
        checkpoint.m_files.push_back(std::move(file));
    }
    return checkpoint;
}

const TensorView* Checkpoint::find(std::string_view name) const
{
    const auto it = m_tensors.find(name);
    return it == m_tensors.end() ? nullptr : &it->second;
}

void Checkpoint::letGoOfPages() const
{
    for (const std::unique_ptr<File>& file : m_files)
        file->map.letGoOfPages();
}

std::uint64_t Checkpoint::fileBytes() const
{
    std::uint64_t total = 0;
    for (const std::unique_ptr<File>& file : m_files)
        total += file->map.bytes().size();
    return total;
}

} // namespace octavo::engine
