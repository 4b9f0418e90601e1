#include "engine/memory/sketch_basis.h"

#include "engine/memory/symmetric_eigen.h"
#include "engine/model/mapped_file.h"
#include "engine/model/safetensors.h"

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>

namespace octavo::engine {

namespace {

std::string hex(std::uint64_t value)
{
    std::string text(16, '0');
    for (std::size_t i = 0; i < 16; ++i)
        text[15 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15];
    return text;
}

// The header's "__metadata__", whose values are strings. The header has been checked before.
nlohmann::json metadataOf(std::span<const std::byte> file)
{
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const std::string_view header(reinterpret_cast<const char*>(file.data()) + 8, length);
    const auto json = nlohmann::json::parse(header, nullptr, false);
    return json.is_object() && json.contains("__metadata__") ? json["__metadata__"] : nlohmann::json::object();
}

template <typename Integer>
bool readNumber(const nlohmann::json& metadata, const char* key, int base, Integer& value)
{
    if (!metadata.contains(key) || !metadata[key].is_string())
        return false;
    const auto text = metadata[key].get<std::string>();
    return std::from_chars(text.data(), text.data() + text.size(), value, base).ptr == text.data() + text.size() &&
           !text.empty();
}

/// What no fit() gives, as a damaged file might have it; empty: nothing. All values are finite.
std::string oddValueOf(const SketchBasis& basis)
{
    constexpr double tolerance = 1e-3, largestMean = 1e4;
    for (int layer = 0; layer < basis.numLayers; ++layer) {
        for (int head = 0; head < basis.numKvHeads; ++head) {
            const std::string where = "layers." + std::to_string(layer) + ", head " + std::to_string(head);
            const std::span vectors(basis.basis(layer, head), std::size_t(basis.rank) * std::size_t(basis.headDim));
            for (int a = 0; a < basis.rank; ++a) {
                const auto left =
                    vectors.subspan(std::size_t(a) * std::size_t(basis.headDim), std::size_t(basis.headDim));
                for (int b = a; b < basis.rank; ++b) {
                    const auto* right = &vectors[std::size_t(b) * std::size_t(basis.headDim)];
                    const double product = std::inner_product(left.begin(), left.end(), right, 0.0);
                    if (!(std::abs(product - (a == b ? 1.0 : 0.0)) <= tolerance))
                        return where + " has vectors that are not orthonormal";
                }
            }
            const std::span means(basis.mean(layer, head), std::size_t(basis.headDim));
            if (!std::ranges::all_of(means, [](float mean) { return std::abs(mean) <= largestMean; }))
                return where + " has a mean out of all proportion";
            if (basis.deviations.empty())
                continue;
            const std::span deviations(basis.deviation(layer, head), std::size_t(basis.rank));
            if (deviations.back() < 0.0f || !std::ranges::is_sorted(deviations, std::ranges::greater{}))
                return where + " has deviations that do not fall";
        }
    }
    return {};
}

} // namespace

const float* SketchBasis::basis(int layer, int kvHead) const
{
    return vectors.data() + std::size_t(layer * numKvHeads + kvHead) * std::size_t(rank) * std::size_t(headDim);
}

const float* SketchBasis::mean(int layer, int kvHead) const
{
    return means.data() + std::size_t(layer * numKvHeads + kvHead) * std::size_t(headDim);
}

const float* SketchBasis::deviation(int layer, int kvHead) const
{
    return deviations.data() + std::size_t(layer * numKvHeads + kvHead) * std::size_t(rank);
}

std::uint64_t SketchBasis::contentHash() const
{
    std::uint64_t hash = 0;
    for (const auto* part : {&means, &vectors, &deviations})
        hash = XXH3_64bits_withSeed(part->data(), part->size() * sizeof(float), hash);
    return hash;
}

Result<SketchBasis> SketchBasis::load(const std::filesystem::path& path)
{
    const std::string name = path.string();
    OCTAVO_TRY(const MappedFile file, MappedFile::open(path));
    const auto bytes = file.bytes();
    OCTAVO_TRY(const SafetensorsHeader header, SafetensorsHeader::parse(bytes, bytes.size(), name));
    const auto invalid = [&](const std::string& what) {
        return Error{ErrorCode::FormatInvalid,
                     name + ": " + what + "; write it anew with octavo-engine eval fit-basis"};
    };

    SketchBasis basis;
    const auto metadata = metadataOf(bytes);
    if (!readNumber(metadata, "model_hash", 16, basis.modelHash) || !readNumber(metadata, "rank", 10, basis.rank) ||
        !readNumber(metadata, "tokens", 10, basis.fittedTokens))
        return invalid("has no model_hash, rank and tokens in its metadata");
    const bool deviates = std::ranges::any_of(
        header.tensors, [](const TensorInfo& info) { return info.name == "layers.0.deviation"; });
    const std::size_t kinds = deviates ? 3 : 2;
    if (header.tensors.empty() || header.tensors.size() % kinds != 0)
        return invalid("must hold a basis, a mean and deviations for each attention layer");
    basis.numLayers = int(header.tensors.size() / kinds);

    const auto tensor = [&](int layer, const char* kind) -> const TensorInfo* {
        const std::string wanted = "layers." + std::to_string(layer) + "." + kind;
        for (const TensorInfo& info : header.tensors) {
            if (info.name == wanted && info.dtype == DType::F32)
                return &info;
        }
        return nullptr;
    };
    for (int layer = 0; layer < basis.numLayers; ++layer) {
        const TensorInfo* vectors = tensor(layer, "basis");
        const TensorInfo* mean = tensor(layer, "mean");
        if (!vectors || !mean || vectors->shape.size() != 3 || mean->shape.size() != 2)
            return invalid("has no F32 layers." + std::to_string(layer) + ".basis of 3 and .mean of 2 dimensions");
        const auto heads = vectors->shape[0], rank = vectors->shape[1], dim = vectors->shape[2];
        if (layer == 0) {
            if (heads < 1 || heads > 256 || dim < 64 || dim > 512 || dim % 64 != 0 || rank < 8 || rank > dim ||
                rank > 256 || rank % 8 != 0)
                return invalid("has a basis of shape " + shapeText(vectors->shape) +
                               "; expected heads, a rank that is a multiple of 8 up to 256, a head size up to 512");
            basis.numKvHeads = int(heads);
            basis.headDim = int(dim);
        }
        if (heads != basis.numKvHeads || dim != basis.headDim || rank != basis.rank || mean->shape[0] != heads ||
            mean->shape[1] != dim)
            return invalid("has tensors of different shapes, or of another rank than its metadata says");
        const auto append = [&](std::vector<float>& to, const TensorInfo& info) {
            const std::size_t before = to.size();
            to.resize(before + std::size_t(info.elements()));
            std::memcpy(to.data() + before, bytes.data() + header.dataStart + info.begin, info.end - info.begin);
            return std::all_of(to.begin() + std::ptrdiff_t(before), to.end(),
                               [](float value) { return std::isfinite(value); });
        };
        const std::string noNumbers = "layers." + std::to_string(layer) + " has values that are no finite numbers";
        if (!append(basis.vectors, *vectors) || !append(basis.means, *mean))
            return invalid(noNumbers);
        if (!deviates)
            continue;
        const TensorInfo* deviation = tensor(layer, "deviation");
        if (!deviation || deviation->shape != std::vector{heads, rank})
            return invalid("has no F32 layers." + std::to_string(layer) + ".deviation of heads and rank");
        if (!append(basis.deviations, *deviation))
            return invalid(noNumbers);
    }
    if (metadata.contains("checksum")) {
        std::uint64_t checksum = 0;
        if (!readNumber(metadata, "checksum", 16, checksum) || checksum != basis.contentHash())
            return invalid("is damaged: its values are not those of its checksum");
    } else if (const std::string odd = oddValueOf(basis); !odd.empty())
        return invalid("is damaged: " + odd);
    return basis;
}

Result<void> SketchBasis::checkReplaceable(const std::filesystem::path& path)
{
    std::error_code error;
    if (!std::filesystem::exists(path, error) ||
        (std::filesystem::is_regular_file(path, error) && std::filesystem::is_empty(path, error)))
        return {};
    const auto file = MappedFile::open(path);
    SketchBasis found;
    if (file && SafetensorsHeader::parse(file->bytes(), file->bytes().size(), path.string()) &&
        readNumber(metadataOf(file->bytes()), "model_hash", 16, found.modelHash))
        return {};
    return Error{ErrorCode::InvalidArgument, path.string() + " is no sketch basis; name another file"};
}

Result<void> SketchBasis::save(const std::filesystem::path& path) const
{
    OCTAVO_CHECK(checkReplaceable(path));
    nlohmann::json header;
    header["__metadata__"] = {{"model_hash", hex(modelHash)},
                              {"rank", std::to_string(rank)},
                              {"tokens", std::to_string(fittedTokens)},
                              {"checksum", hex(contentHash())}};
    const std::size_t basisFloats = std::size_t(numKvHeads) * std::size_t(rank) * std::size_t(headDim);
    const std::size_t meanFloats = std::size_t(numKvHeads) * std::size_t(headDim);
    const std::size_t deviationFloats = deviations.empty() ? 0 : std::size_t(numKvHeads) * std::size_t(rank);
    std::size_t offset = 0;
    const auto add = [&](const std::string& tensor, const nlohmann::json& shape, std::size_t floats) {
        header[tensor] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {offset, offset + 4 * floats}}};
        offset += 4 * floats;
    };
    for (int layer = 0; layer < numLayers; ++layer) {
        const std::string prefix = "layers." + std::to_string(layer);
        add(prefix + ".basis", {numKvHeads, rank, headDim}, basisFloats);
        add(prefix + ".mean", {numKvHeads, headDim}, meanFloats);
        if (deviationFloats > 0)
            add(prefix + ".deviation", {numKvHeads, rank}, deviationFloats);
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');

    auto temporary = path;
    temporary += ".part";
    {
        std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
        const std::uint64_t length = text.size();
        file.write(reinterpret_cast<const char*>(&length), 8);
        file.write(text.data(), std::streamsize(text.size()));
        for (std::size_t layer = 0; layer < std::size_t(numLayers); ++layer) {
            file.write(reinterpret_cast<const char*>(vectors.data() + layer * basisFloats),
                       std::streamsize(4 * basisFloats));
            file.write(reinterpret_cast<const char*>(means.data() + layer * meanFloats),
                       std::streamsize(4 * meanFloats));
            file.write(reinterpret_cast<const char*>(deviations.data() + layer * deviationFloats),
                       std::streamsize(4 * deviationFloats));
        }
        file.close();
        if (!file) {
            std::error_code ignored;
            std::filesystem::remove(temporary, ignored);
            return Error{ErrorCode::FileUnwritable, path.string() + ": the basis cannot be written there"};
        }
    }
    std::error_code error;
    std::filesystem::rename(temporary, path, error);
    if (error)
        return Error{ErrorCode::FileUnwritable, path.string() + ": " + error.message()};
    return {};
}

Result<void> SketchBasis::checkFits(std::uint64_t hash, int layers, int kvHeads, int dim) const
{
    if (numLayers != layers || numKvHeads != kvHeads || headDim != dim)
        return Error{ErrorCode::FormatInvalid,
                     "the sketch basis is for " + std::to_string(numLayers) + " layers of " +
                         std::to_string(numKvHeads) + " heads of size " + std::to_string(headDim) + ", the model has " +
                         std::to_string(layers) + ", " + std::to_string(kvHeads) + ", " + std::to_string(dim) +
                         "; write one for it with octavo-engine eval fit-basis"};
    if (modelHash != hash)
        return Error{ErrorCode::FormatInvalid, "the sketch basis was fitted for model " + hex(modelHash) +
                                                   ", this is " + hex(hash) +
                                                   "; write one for it with octavo-engine eval fit-basis"};
    return {};
}

KeyStatistics::KeyStatistics(int numLayers, int numKvHeads, int headDim)
    : m_numLayers(numLayers)
    , m_numKvHeads(numKvHeads)
    , m_headDim(headDim)
    , m_counts(std::size_t(numLayers * numKvHeads))
    , m_sums(m_counts.size() * std::size_t(headDim))
    , m_products(m_sums.size() * std::size_t(headDim))
{}

void KeyStatistics::add(int layer, int kvHead, const float* key)
{
    const auto index = std::size_t(layer * m_numKvHeads + kvHead), dim = std::size_t(m_headDim);
    ++m_counts[index];
    double* sums = &m_sums[index * dim];
    double* products = &m_products[index * dim * dim];
    for (std::size_t i = 0; i < dim; ++i) {
        sums[i] += double(key[i]);
        for (std::size_t j = i; j < dim; ++j)
            products[i * dim + j] += double(key[i]) * double(key[j]);
    }
}

Result<SketchBasis> KeyStatistics::fit(int rank, std::uint64_t modelHash) const
{
    if (rank < 8 || rank > m_headDim || rank % 8 != 0)
        return Error{ErrorCode::InvalidArgument, "a sketch of rank " + std::to_string(rank) +
                                                     " cannot be fitted; expected a multiple of 8 up to " +
                                                     std::to_string(m_headDim)};
    if (tokens() < 4 * rank)
        return Error{ErrorCode::InvalidArgument, "a basis of rank " + std::to_string(rank) + " needs at least " +
                                                     std::to_string(4 * rank) + " tokens, the text has " +
                                                     std::to_string(tokens())};
    SketchBasis basis{m_numLayers, m_numKvHeads, m_headDim, rank, modelHash, tokens(), {}, {}, {}};
    const auto dim = std::size_t(m_headDim);
    for (std::size_t index = 0; index < m_counts.size(); ++index) {
        const double count = double(m_counts[index]);
        const double* sums = &m_sums[index * dim];
        std::vector<double> covariance(dim * dim);
        for (std::size_t i = 0; i < dim; ++i) {
            basis.means.push_back(float(sums[i] / count));
            for (std::size_t j = i; j < dim; ++j)
                covariance[i * dim + j] =
                    m_products[(index * dim + i) * dim + j] / count - sums[i] / count * sums[j] / count;
        }
        const SymmetricEigen eigen = symmetricEigen(std::move(covariance), m_headDim);
        for (std::size_t i = 0; i < std::size_t(rank) * dim; ++i)
            basis.vectors.push_back(float(eigen.vectors[i]));
        for (std::size_t i = 0; i < std::size_t(rank); ++i)
            basis.deviations.push_back(float(std::sqrt(std::max(0.0, eigen.values[i]))));
    }
    return basis;
}

std::vector<double> KeyStatistics::explained(const SketchBasis& basis) const
{
    const auto dim = std::size_t(m_headDim);
    std::vector<double> shares;
    for (std::size_t index = 0; index < m_counts.size(); ++index) {
        const double count = double(m_counts[index]);
        const auto covariance = [&](std::size_t i, std::size_t j) {
            return m_products[(index * dim + std::min(i, j)) * dim + std::max(i, j)] / count -
                   m_sums[index * dim + i] / count * m_sums[index * dim + j] / count;
        };
        double total = 0.0, kept = 0.0;
        for (std::size_t i = 0; i < dim; ++i)
            total += covariance(i, i);
        const float* vector = basis.basis(int(index) / m_numKvHeads, int(index) % m_numKvHeads);
        for (int r = 0; r < basis.rank; ++r, vector += dim) {
            for (std::size_t i = 0; i < dim; ++i) {
                for (std::size_t j = 0; j < dim; ++j)
                    kept += double(vector[i]) * covariance(i, j) * double(vector[j]);
            }
        }
        shares.push_back(total > 0.0 ? kept / total : 1.0);
    }
    return shares;
}

} // namespace octavo::engine
