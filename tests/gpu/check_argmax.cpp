#include "tests/gpu/checks.h"

#include "kernels/cuda/argmax.h"

#include <limits>

namespace octavo::gpu
{

using namespace kernels::cuda;

void checkArgmax(Report& report)
{
    Random random(10);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    for (const int columns : {1, 31, 16384, 248320}) {
        constexpr int rows = 9;
        const int end = columns > 31 ? columns - 13 : columns;
        std::vector<float> logits(std::size_t(rows) * columns);
        for (float& value : logits)
            value = float(random.normal() * 10.0);
        for (int row = 0; row < rows; ++row) {
            float* at = &logits[std::size_t(row) * columns];
            at[columns - 1] = columns > end ? 1000.0f : at[columns - 1]; // padding must not win
            if (row == 1)
                std::fill_n(at, columns, -3.0f); // all equal
            if (row == 2)
                std::fill_n(at, columns, nan);
            if (row == 3)
                at[random.below(end)] = infinity, at[random.below(end)] = nan;
            if (row == 4)
                std::fill_n(at, columns, -infinity), at[end - 1] = -1e30f;
            if (row == 5)
                std::fill_n(at, columns, -0.0f), at[end / 2] = 0.0f; // -0 and 0 are equal
            if (row == 6)
                at[end / 3] = at[end - 1] = 500.0f;
        }
        const DeviceArray<float> logitsDevice(logits);
        DeviceArray<std::uint64_t> workspace(argmaxWorkspaceWords(rows));
        DeviceArray<std::int32_t> ids(rows);
        const MatrixView<const float> view{logitsDevice.data(), rows, columns, columns};
        OCTAVO_REQUIRE(launchArgmax(view, end, workspace.data(), ids.data(), nullptr));
        const std::vector<std::int32_t> got = ids.download();
        for (int row = 0; row < rows; ++row) {
            const std::int32_t want = referenceArgmax(&logits[std::size_t(row) * columns], end);
            report.expect(got[std::size_t(row)] == want, "argmax of %d, row %d: %d, expected %d", columns, row,
                          got[std::size_t(row)], want);
        }
    }
    const MatrixView<const float> view{nullptr, 1, 8, 8};
    report.expect(launchArgmax(view, 9, nullptr, nullptr, nullptr) == cudaErrorInvalidValue,
                  "argmax reads beyond a row");
}

} // namespace octavo::gpu
