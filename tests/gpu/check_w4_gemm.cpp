#include "tests/gpu/checks.h"

#include "kernels/cuda/w4_gemm.h"

namespace octavo::gpu
{
namespace
{

using namespace kernels::cuda;

struct PackedLinear {
    std::vector<std::uint8_t> units;
    int outFeatures, inFeatures;
};

/// Random codes, signed scales as AutoRound makes them.
PackedLinear randomLinear(Random& random, int outFeatures, int inFeatures)
{
    const int groups = (inFeatures + 127) / 128;
    std::vector<std::uint32_t> qweight(std::size_t(inFeatures / 8) * outFeatures);
    std::vector<std::uint16_t> scales(std::size_t(groups) * outFeatures);
    for (auto& word : qweight)
        word = std::uint32_t(random.bits());
    for (auto& scale : scales) {
        const __half value = __float2half(float(random.uniform(0.002, 0.01) * (random.below(2) ? 1 : -1)));
        std::memcpy(&scale, &value, 2);
    }
    PackedLinear linear{std::vector<std::uint8_t>(w4PackedBytes(outFeatures, inFeatures)), outFeatures, inFeatures};
    clearW4(linear.units);
    packW4(qweight.data(), scales.data(), outFeatures, inFeatures, linear.units);
    return linear;
}

/// What a path needs between launches.
class Workspace
{
public:
    explicit Workspace(int blocks, W4Path path = W4Path::Auto)
        : m_partials(w4PartialFloats(blocks))
        , m_arrivals(w4Arrivals(248320))
        , m_view{m_partials.data(), m_arrivals.data(), blocks, path}
    {
        m_partials.zero();
        m_arrivals.zero();
    }

    const W4Workspace& view() const { return m_view; }

    /// Whether launches have left it as the next one needs it.
    bool clear() const
    {
        const std::vector<int> arrivals = m_arrivals.download();
        bool clear = std::all_of(arrivals.begin(), arrivals.end(), [](int count) { return count == 0; });
        int device = 0, major = 0;
        OCTAVO_REQUIRE(cudaGetDevice(&device));
        OCTAVO_REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
        if (major == 9 && m_view.path == W4Path::Auto) {
            const std::vector<float> partials = m_partials.download();
            const std::vector<float> zeros(partials.size());
            clear &= std::memcmp(partials.data(), zeros.data(), zeros.size() * sizeof(float)) == 0;
        }
        return clear;
    }

private:
    DeviceArray<float> m_partials;
    DeviceArray<int> m_arrivals;
    W4Workspace m_view;
};

/// Many units to a block, and weights that come out of memory, not L2, in whatever order: stages go round the ring
/// often, and now and then one is late.
void checkFarWeights(Report& report, Random& random)
{
    constexpr int outFeatures = 16384, inFeatures = 2048, mostRows = 64;
    const std::vector<std::uint8_t> units = randomLinear(random, outFeatures, inFeatures).units;
    const DeviceArray<std::uint8_t> onDevice(units);
    DeviceArray<std::uint8_t> everythingElse(std::size_t(300) << 20);
    const std::vector<float> x = randomBf16(random, std::size_t(mostRows) * inFeatures);
    const DeviceArray<__nv_bfloat16> rows(toBf16(x));
    DeviceArray<float> y(std::size_t(mostRows) * outFeatures);
    std::vector<double> want(outFeatures);
    referenceW4Gemm(x.data(), 1, units.data(), outFeatures, inFeatures, want.data());
    for (const int blocks : {8, multiprocessors()}) {
        const Workspace workspace(blocks);
        std::vector<float> alone;
        for (const int count : {1, 8, 9, 16, 24, 32, 40, 64}) {
            std::vector<float> first;
            for (int turn = 0; turn < 5; ++turn) {
                everythingElse.poison();
                y.poison();
                OCTAVO_REQUIRE(launchW4Gemm({rows.data(), count, inFeatures, inFeatures},
                                            {onDevice.data(), outFeatures, inFeatures}, y.data(), outFeatures,
                                            GemmOutput::Float, workspace.view(), nullptr));
                std::vector<float> got = y.download();
                got.resize(std::size_t(count) * outFeatures);
                if (count == 1 && turn == 0)
                    alone = got;
                if (turn == 0)
                    compare(report, "w4 gemm, far weights", {got.begin(), got.begin() + outFeatures}, want, 1e-5);
                else
                    report.expect(got == first, "w4 gemm, far weights, %d rows: other bits in turn %d", count, turn);
                if (turn == 0)
                    first = std::move(got);
            }
            report.expect(std::equal(alone.begin(), alone.end(), first.begin()),
                          "w4 gemm, far weights: a row has other bits among %d than alone", count);
        }
    }
}

/// Two products with the norms around them taken along, against the same by plain launches and a norm between.
void checkNorms(Report& report, Random& random, const W4Workspace& workspace)
{
    constexpr float eps = 1e-6f;
    for (const auto& [inFeatures, width, outFeatures] :
         {std::tuple{384, 128, 256}, {1000, 512, 96}, {2048, 640, 384}}) {
        const PackedLinear first = randomLinear(random, width, inFeatures);
        const PackedLinear second = randomLinear(random, outFeatures, width);
        const DeviceArray<std::uint8_t> firstUnits(first.units), secondUnits(second.units);
        const W4Matrix firstMatrix{firstUnits.data(), width, inFeatures};
        const W4Matrix secondMatrix{secondUnits.data(), outFeatures, width};
        const std::vector<float> x = randomBf16(random, std::size_t(64) * inFeatures);
        const std::vector<float> hidden = randomBf16(random, std::size_t(64) * width);
        std::vector<float> weight(std::size_t(width), 0.0f);
        for (float& value : weight)
            value = float(random.uniform(0.5, 1.5));
        const DeviceArray<__nv_bfloat16> xDevice(toBf16(x));
        const DeviceArray<float> weightDevice(weight);
        std::vector<double> products(std::size_t(64) * width);
        referenceW4Gemm(x.data(), 64, first.units.data(), width, inFeatures, products.data());

        std::vector<__nv_bfloat16> widestHidden;
        std::vector<float> widest;
        for (const int rows : {64, 33, 17, 16, 9, 8, 3, 1}) {
            const std::string name = "w4 gemm with norms, " + std::to_string(rows) + " rows, " +
                                     std::to_string(inFeatures) + " -> " + std::to_string(width) + " -> " +
                                     std::to_string(outFeatures);
            DeviceArray<__nv_bfloat16> stream(toBf16(hidden)), normed(std::size_t(64) * width);
            DeviceArray<float> squares(std::size_t(64) * width / w4SquareValues), y(std::size_t(64) * outFeatures);
            const MatrixView<const __nv_bfloat16> view{xDevice.data(), rows, inFeatures, inFeatures};
            OCTAVO_REQUIRE(launchW4Gemm(view, firstMatrix, normed.data(), width, GemmOutput::Bf16, workspace, nullptr,
                                        {nullptr, 0.0f, stream.data(), weightDevice.data(), squares.data()}));
            OCTAVO_REQUIRE(launchW4Gemm({normed.data(), rows, width, width}, secondMatrix, y.data(), outFeatures,
                                        GemmOutput::Float, workspace, nullptr, {squares.data(), eps}));
            std::vector<__nv_bfloat16> gotHidden = stream.download();
            const std::vector<float> values = toFloat(gotHidden), scaled = toFloat(normed.download());
            std::vector<float> got = y.download();
            got.resize(std::size_t(rows) * outFeatures);
            std::vector<double> wantHidden, wantNormed;
            std::vector<float> normedRows;
            for (int row = 0; row < 64; ++row) {
                double square = 0.0;
                for (int i = 0; i < width; ++i)
                    square += double(values[std::size_t(row) * width + i]) * values[std::size_t(row) * width + i];
                const double scale = 1.0 / std::sqrt(square / width + double(eps));
                for (int i = 0; i < width; ++i) {
                    const std::size_t at = std::size_t(row) * width + std::size_t(i);
                    wantHidden.push_back(hidden[at] + (row < rows ? products[at] : 0.0));
                    if (row < rows)
                        normedRows.push_back(float(scaled[at] * scale));
                }
            }
            compare(report, name + ": the stream", values, wantHidden, 5e-3);
            std::vector<double> want(got.size());
            referenceW4Gemm(normedRows.data(), rows, second.units.data(), outFeatures, width, want.data());
            compare(report, name, got, want, 1e-5);
            bool weighed = true;
            for (std::size_t at = 0; at < std::size_t(rows) * width; ++at)
                weighed &=
                    scaled[at] == __bfloat162float(__float2bfloat16(values[at] * weight[at % std::size_t(width)]));
            report.expect(weighed, "%s: rows are not the stream times the norm's weights", name.c_str());
            if (rows == 64) {
                widest = got;
                widestHidden = gotHidden;
                continue;
            }
            report.expect(std::equal(got.begin(), got.end(), widest.begin()) &&
                              std::memcmp(gotHidden.data(), widestHidden.data(),
                                          std::size_t(rows) * width * sizeof(__nv_bfloat16)) == 0,
                          "%s: rows differ from the same rows in a batch of 64", name.c_str());
        }
    }
}

/// Products close after each other over one workspace, each of whose tiles several blocks share, against the same one
/// by one: none may see what another left there. Inputs of 0 are among them, whose sums are 0 in every block.
void checkCloseProducts(Report& report, Random& random, const Workspace& workspace)
{
    struct Product {
        int linear, rows;
        bool zeros;
    };
    const std::vector<PackedLinear> linears = {randomLinear(random, 640, 5120), randomLinear(random, 1280, 2048),
                                               randomLinear(random, 2560, 1024)};
    std::vector<DeviceArray<std::uint8_t>> units;
    for (const PackedLinear& linear : linears)
        units.emplace_back(linear.units);
    const DeviceArray<__nv_bfloat16> x(toBf16(randomBf16(random, std::size_t(64) * 5120)));
    DeviceArray<__nv_bfloat16> zeros(std::size_t(64) * 5120);
    zeros.zero();
    std::vector<Product> products;
    for (const int rows : {1, 64, 8, 33, 16, 32, 48, 3, 56, 17})
        for (int linear = 0; linear < 3; ++linear)
            products.push_back({linear, rows, (rows + linear) % 5 == 0});
    std::vector<DeviceArray<float>> together, alone;
    const auto launch = [&](const Product& product, DeviceArray<float>& y) {
        const PackedLinear& linear = linears[std::size_t(product.linear)];
        OCTAVO_REQUIRE(
            launchW4Gemm({(product.zeros ? zeros : x).data(), product.rows, linear.inFeatures, linear.inFeatures},
                         {units[std::size_t(product.linear)].data(), linear.outFeatures, linear.inFeatures}, y.data(),
                         linear.outFeatures, GemmOutput::Float, workspace.view(), nullptr));
    };
    for (const Product& product : products) {
        const std::size_t values = std::size_t(product.rows) * linears[std::size_t(product.linear)].outFeatures;
        together.emplace_back(values);
        alone.emplace_back(values);
        launch(product, alone.back());
        OCTAVO_REQUIRE(cudaDeviceSynchronize());
    }
    for (int turn = 0; turn < 20; ++turn)
        for (std::size_t i = 0; i < products.size(); ++i)
            launch(products[i], together[i]);
    for (std::size_t i = 0; i < products.size(); ++i) {
        const std::vector<float> got = together[i].download(), want = alone[i].download();
        report.expect(got == want, "w4 gemm, close products: %d rows of linear %d differ from the same alone",
                      products[i].rows, products[i].linear);
        report.expect(!products[i].zeros ||
                          std::all_of(got.begin(), got.end(), [](float value) { return value == 0.0f; }),
                      "w4 gemm, close products: %d rows of zeros do not give zeros", products[i].rows);
    }
}

} // namespace

void checkW4Gemm(Report& report)
{
    Random random(1);
    const Workspace best(multiprocessors()), portable(multiprocessors(), W4Path::Portable);
    const Workspace* const workspaces[] = {&portable, &best};

    const std::pair<int, int> shapes[] = {{1, 8},     {128, 128},  {130, 136}, {48, 384},
                                          {512, 512}, {257, 1000}, {640, 5120}};
    for (const auto& [outFeatures, inFeatures] : shapes) {
        const PackedLinear linear = randomLinear(random, outFeatures, inFeatures);
        const DeviceArray<std::uint8_t> units(linear.units);
        const W4Matrix weights{units.data(), outFeatures, inFeatures};
        const std::int64_t stride = outFeatures + 3;
        const std::vector<float> x = randomBf16(random, std::size_t(64) * inFeatures);
        const DeviceArray<__nv_bfloat16> xDevice(toBf16(x));
        std::vector<double> want(std::size_t(64) * outFeatures);
        referenceW4Gemm(x.data(), 64, linear.units.data(), outFeatures, inFeatures, want.data());

        for (const Workspace* workspace : workspaces) {
            std::vector<float> widest;
            for (const int rows : {64, 56, 48, 40, 33, 32, 24, 17, 16, 9, 8, 7, 3, 1, 0}) {
                const std::string name = "w4 gemm M=" + std::to_string(rows) + " N=" + std::to_string(outFeatures) +
                                         " K=" + std::to_string(inFeatures);
                DeviceArray<float> y(std::size_t(65) * stride);
                const MatrixView<const __nv_bfloat16> view{xDevice.data(), rows, inFeatures, inFeatures};
                OCTAVO_REQUIRE(
                    launchW4Gemm(view, weights, y.data(), stride, GemmOutput::Float, workspace->view(), nullptr));
                const std::vector<float> got = y.download();
                std::vector<float> dense;
                bool guarded = true;
                for (int row = 0; row < 65; ++row) {
                    for (int column = 0; column < stride; ++column) {
                        const float value = got[std::size_t(row) * stride + column];
                        if (row < rows && column < outFeatures)
                            dense.push_back(value);
                        else
                            guarded &= std::isnan(value);
                    }
                }
                report.expect(guarded, "%s wrote outside its rows or columns", name.c_str());
                // fp32 sums of up to 5120 products: far below 1e-5.
                compare(report, name, dense, {want.begin(), want.begin() + std::ptrdiff_t(dense.size())}, 1e-5);
                if (rows == 64)
                    widest = dense;
                else
                    report.expect(std::equal(dense.begin(), dense.end(), widest.begin()),
                                  "%s: rows differ from the same rows in a batch of 64", name.c_str());
            }
        }

        if (outFeatures % 32 == 0) {
            std::vector<double> gated;
            for (int row = 0; row < 21; ++row) {
                for (int n = 0; n < outFeatures; n += n % 32 == 15 ? 17 : 1) {
                    const double* gate = &want[std::size_t(row) * outFeatures + n];
                    gated.push_back(gate[0] / (1.0 + std::exp(-gate[0])) * gate[16]);
                }
            }
            for (const Workspace* workspace : workspaces) {
                DeviceArray<__nv_bfloat16> y(gated.size());
                const MatrixView<const __nv_bfloat16> view{xDevice.data(), 21, inFeatures, inFeatures};
                OCTAVO_REQUIRE(launchW4Gemm(view, weights, y.data(), outFeatures / 2, GemmOutput::Gated,
                                            workspace->view(), nullptr));
                compare(report, "w4 gemm gated", toFloat(y.download()), gated, 1e-2);
            }
        } else {
            report.expect(launchW4Gemm({xDevice.data(), 1, inFeatures, inFeatures}, weights, xDevice.data(),
                                       outFeatures, GemmOutput::Gated, best.view(), nullptr) == cudaErrorInvalidValue,
                          "w4 gemm gates %d outputs", outFeatures);
        }

        DeviceArray<__nv_bfloat16> y(std::size_t(5) * outFeatures);
        const MatrixView<const __nv_bfloat16> view{xDevice.data(), 5, inFeatures, inFeatures};
        OCTAVO_REQUIRE(launchW4Gemm(view, weights, y.data(), outFeatures, GemmOutput::Bf16, best.view(), nullptr));
        compare(report, "w4 gemm bf16 out", toFloat(y.download()),
                {want.begin(), want.begin() + std::ptrdiff_t(5) * outFeatures}, 4e-3);

        DeviceArray<__nv_bfloat16> dequantized(std::size_t(outFeatures) * inFeatures);
        for (int first = 0; first < outFeatures; first += 100) {
            const int count = std::min(100, outFeatures - first);
            OCTAVO_REQUIRE(launchW4Dequantize(
                weights, first, denseView(dequantized.data() + std::size_t(first) * inFeatures, count, inFeatures),
                nullptr));
        }
        const std::vector<__nv_bfloat16> values = dequantized.download();
        std::size_t wrong = 0;
        for (int n = 0; n < outFeatures; ++n) {
            for (int k = 0; k < inFeatures; ++k) {
                const __half_raw scale{w4ScaleAt(linear.units.data(), inFeatures, n, k)};
                const float value =
                    __half2float(__half(scale)) * float(w4CodeAt(linear.units.data(), inFeatures, n, k) - 8);
                wrong += __bfloat162float(values[std::size_t(n) * inFeatures + k]) !=
                         __bfloat162float(__float2bfloat16(value));
            }
        }
        report.expect(wrong == 0, "w4 dequantize N=%d K=%d: %zu values differ", outFeatures, inFeatures, wrong);
        if (outFeatures % 32 == 0) {
            DeviceArray<__nv_bfloat16> parted(dequantized.size());
            OCTAVO_REQUIRE(launchW4Dequantize(weights, 0, denseView(parted.data(), outFeatures, inFeatures), nullptr,
                                              outFeatures / 2));
            const std::vector<float> whole = toFloat(values), got = toFloat(parted.download());
            std::size_t astray = 0;
            for (int n = 0; n < outFeatures; ++n)
                astray +=
                    !std::equal(&whole[std::size_t(n) * inFeatures], &whole[std::size_t(n) * inFeatures] + inFeatures,
                                &got[std::size_t(gatedRow(n, outFeatures / 2)) * inFeatures]);
            report.expect(astray == 0, "w4 dequantize gated N=%d: %zu outputs astray", outFeatures, astray);
        }
    }

    checkFarWeights(report, random);
    for (const Workspace* workspace : workspaces) {
        checkNorms(report, random, workspace->view());
        checkCloseProducts(report, random, *workspace);
        report.expect(workspace->clear(), "w4 gemm: products do not leave their workspace as they found it");
    }

    const W4Matrix weights{nullptr, 128, 128};
    const MatrixView<const __nv_bfloat16> tooMany{nullptr, 65, 128, 128}, tooNarrow{nullptr, 1, 120, 120};
    report.expect(launchW4Gemm(tooMany, weights, nullptr, 128, GemmOutput::Bf16, best.view(), nullptr) ==
                      cudaErrorInvalidValue,
                  "w4 gemm takes 65 rows");
    report.expect(launchW4Gemm(tooNarrow, weights, nullptr, 128, GemmOutput::Bf16, best.view(), nullptr) ==
                      cudaErrorInvalidValue,
                  "w4 gemm takes inputs of another width");
    const W4Matrix odd{nullptr, 96, 120};
    const MatrixView<const __nv_bfloat16> oddRows{nullptr, 1, 120, 120};
    const DeviceArray<float> floats(256);
    const DeviceArray<__nv_bfloat16> stream(256);
    const W4Norms before{floats.data(), 1e-6f}, after{nullptr, 0.0f, stream.data(), floats.data(), floats.data()};
    for (const W4Norms& norms : {before, after})
        report.expect(launchW4Gemm(oddRows, odd, nullptr, 96, GemmOutput::Bf16, best.view(), nullptr, norms) ==
                          cudaErrorInvalidValue,
                      "w4 gemm takes norms along over widths that are no multiples of 128");
    const MatrixView<const __nv_bfloat16> row{nullptr, 1, 128, 128};
    W4Norms astray = after;
    astray.hidden = stream.data() + 1;
    report.expect(launchW4Gemm(row, weights, nullptr, 128, GemmOutput::Bf16, best.view(), nullptr, astray) ==
                          cudaErrorInvalidValue &&
                      launchW4Gemm(row, weights, nullptr, 132, GemmOutput::Bf16, best.view(), nullptr, after) ==
                          cudaErrorInvalidValue,
                  "w4 gemm adds to rows that do not begin on 16 bytes");
}

} // namespace octavo::gpu
