#include "tests/gpu/checks.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/prefill_attention.h"

#include <array>

namespace octavo::gpu
{
namespace
{

using namespace kernels::cuda;

/// One layer's rows of a sequence in pages, and what they hold.
struct PagedRows {
    static constexpr int layerOffset = 4096;
    int kvHeads, tokens;
    std::vector<float> keys, values; // (kvHeads, tokens, 256)
    std::vector<DeviceArray<std::uint8_t>> pages;
    std::uint8_t* hostPage = nullptr; // the first one lies there
    DeviceArray<std::uint8_t*> table;

    PagedRows(Random& random, int kvHeads, int tokens)
        : kvHeads(kvHeads)
        , tokens(tokens)
        , keys(std::size_t(kvHeads) * tokens * 256)
        , values(keys.size())
    {
        const std::size_t rowBytes = std::size_t(kvHeads) * kvHeadBytes;
        const std::size_t pageBytes = layerOffset + rowPageTokens * rowBytes;
        std::vector<std::uint8_t*> pointers;
        OCTAVO_REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&hostPage), pageBytes, cudaHostAllocMapped));
        for (int first = 0; first < tokens; first += rowPageTokens) {
            std::vector<std::uint8_t> page(pageBytes, 0xff);
            for (int t = first; t < std::min(tokens, first + rowPageTokens); ++t) {
                for (int h = 0; h < kvHeads; ++h) {
                    const std::vector<float> k = randomBf16(random, 256), v = randomBf16(random, 256);
                    std::uint8_t* row =
                        &page[layerOffset + std::size_t(t - first) * rowBytes + std::size_t(h) * kvHeadBytes];
                    referenceQuantizeRow(k.data(), v.data(), row);
                    const std::size_t at = (std::size_t(h) * tokens + t) * 256;
                    referenceDequantizeRow(row, &keys[at], &values[at]);
                }
            }
            pages.emplace_back(page);
            pointers.push_back(pages.back().data());
            if (first == 0) {
                std::memcpy(hostPage, page.data(), pageBytes);
                pointers[0] = hostPage;
            }
        }
        table = DeviceArray<std::uint8_t*>(pointers);
    }
    ~PagedRows() { cudaFreeHost(hostPage); }
    RowPages view() const { return {table.data(), layerOffset}; }
};

void checkDequantizeRows(Report& report)
{
    Random random(41);
    for (const auto& [kvHeads, tokens, begin, end] :
         {std::array{1, 70, 0, 70}, std::array{4, 600, 500, 600}, std::array{2, 520, 511, 513}}) {
        const PagedRows rows(random, kvHeads, tokens);
        const int count = end - begin, capacity = count + 3;
        DeviceArray<__nv_bfloat16> keys(std::size_t(kvHeads) * capacity * 256), values(keys.size());
        OCTAVO_REQUIRE(
            launchDequantizeRows(rows.view(), kvHeads, {keys.data(), values.data(), capacity, begin, end}, nullptr));
        const std::vector<float> gotKeys = toFloat(keys.download()), gotValues = toFloat(values.download());
        std::size_t wrong = 0;
        for (int h = 0; h < kvHeads; ++h) {
            for (int i = 0; i < count * 256; ++i) {
                const std::size_t got = std::size_t(h) * capacity * 256 + i;
                const std::size_t want = (std::size_t(h) * tokens + begin) * 256 + i;
                wrong += gotKeys[got] != __bfloat162float(__float2bfloat16(rows.keys[want]));
                wrong += gotValues[got] != __bfloat162float(__float2bfloat16(rows.values[want]));
            }
        }
        report.expect(wrong == 0, "dequantized rows %d .. %d of %d heads: %zu values differ", begin, end, kvHeads,
                      wrong);
    }
}

struct Shape {
    int heads, kvHeads, rows, firstPosition, stretch; // tokens of a stretch
    double spread = 2.0;                              // of the queries
};

std::vector<float> attend(const PagedRows& rows, const Shape& shape, const DeviceArray<__nv_bfloat16>& query,
                          const DeviceArray<__nv_bfloat16>& gate, int firstRow, int count, PrefillPath path)
{
    DeviceArray<float> workspace(prefillAttentionFloats(count, shape.heads, shape.kvHeads));
    DeviceArray<__nv_bfloat16> keys(std::size_t(shape.kvHeads) * shape.stretch * 256), values(keys.size());
    DeviceArray<__nv_bfloat16> out(std::size_t(count) * shape.heads * 256);
    const std::size_t at = std::size_t(firstRow) * shape.heads;
    const PrefillQueries queries{
        query.data() + at * 256, gate.data() + at * 512 + 256,  shape.heads * 512, 512, count, shape.heads,
        shape.kvHeads,           shape.firstPosition + firstRow};
    const int end = shape.firstPosition + firstRow + count;
    for (int begin = 0; begin < end; begin += shape.stretch) {
        const KvStretch stretch{keys.data(), values.data(), shape.stretch, begin, std::min(end, begin + shape.stretch)};
        OCTAVO_REQUIRE(launchDequantizeRows(rows.view(), shape.kvHeads, stretch, nullptr));
        OCTAVO_REQUIRE(launchPrefillAttention(queries, stretch, workspace.data(), out.data(), path, nullptr));
    }
    return toFloat(out.download());
}

} // namespace

void checkPrefillAttention(Report& report)
{
    checkDequantizeRows(report);
    Random random(42);
    // Tiles of 32, 64 and 80 keys that end with the last key, one before it and in the middle; stretches that end
    // within a tile and among the rows; one, two and three blocks of pairs; maxima that go on rising.
    for (const Shape& shape :
         {Shape{2, 1, 1, 0, 64}, Shape{4, 2, 70, 0, 64}, Shape{6, 1, 64, 0, 128}, Shape{6, 1, 130, 64, 128},
          Shape{3, 1, 100, 37, 192}, Shape{24, 4, 33, 600, 512}, Shape{1, 1, 1, 80, 128}, Shape{6, 1, 22, 58, 128},
          Shape{24, 4, 43, 278, 320}, Shape{12, 2, 100, 500, 128}, Shape{6, 2, 150, 420, 192, 12.0}}) {
        const int tokens = shape.firstPosition + shape.rows;
        const PagedRows rows(random, shape.kvHeads, tokens);
        const std::vector<float> query = randomBf16(random, std::size_t(shape.rows) * shape.heads * 256, shape.spread);
        const std::vector<float> gate = randomBf16(random, std::size_t(shape.rows) * shape.heads * 512);
        const DeviceArray<__nv_bfloat16> queryDevice(toBf16(query)), gateDevice(toBf16(gate));
        std::vector<double> want(query.size());
        for (int r = 0; r < shape.rows; ++r) {
            for (int h = 0; h < shape.heads; ++h) {
                const std::size_t kv = std::size_t(h / (shape.heads / shape.kvHeads)) * tokens * 256;
                const std::size_t at = std::size_t(r) * shape.heads + h;
                referenceAttentionHead(&query[at * 256], &gate[at * 512 + 256], &rows.keys[kv], &rows.values[kv], 256,
                                       shape.firstPosition + r + 1, &want[at * 256]);
            }
        }
        const std::string name = "prefill attention heads=" + std::to_string(shape.heads) +
                                 " rows=" + std::to_string(shape.rows) + " at " + std::to_string(shape.firstPosition);
        for (const PrefillPath path : {PrefillPath::Auto, PrefillPath::Tiles64, PrefillPath::Tiles32}) {
            const std::string which = name + " path " + std::to_string(int(path));
            const std::vector<float> whole = attend(rows, shape, queryDevice, gateDevice, 0, shape.rows, path);
            // Rows and weights rounded to bf16, and one rounding at the store.
            if (!compare(report, which, whole, want, 8e-3) || shape.rows <= 64)
                continue;
            std::vector<float> cut = attend(rows, shape, queryDevice, gateDevice, 0, 64, path);
            const std::vector<float> rest = attend(rows, shape, queryDevice, gateDevice, 64, shape.rows - 64, path);
            cut.insert(cut.end(), rest.begin(), rest.end());
            report.expect(cut == whole, "%s depends on where a slice begins", which.c_str());
        }
    }
    const PrefillQueries odd{nullptr, nullptr, 0, 0, 1, 3, 2, 0}, one{nullptr, nullptr, 0, 0, 1, 2, 2, 0};
    report.expect(launchPrefillAttention(odd, {nullptr, nullptr, 64, 0, 64}, nullptr, nullptr, PrefillPath::Tiles32,
                                         nullptr) == cudaErrorInvalidValue,
                  "prefill attention takes heads that don't divide");
    report.expect(launchPrefillAttention(one, {nullptr, nullptr, 32, 0, 64}, nullptr, nullptr, PrefillPath::Tiles32,
                                         nullptr) == cudaErrorInvalidValue,
                  "prefill attention takes more rows than the stretch holds");
}

} // namespace octavo::gpu
