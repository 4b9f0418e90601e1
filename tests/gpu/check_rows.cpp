#include "tests/gpu/checks.h"

#include "kernels/cuda/row_copy.h"
#include "kernels/cuda/row_peak.h"

#include <limits>

namespace octavo::gpu
{

using namespace kernels::cuda;

void checkRowCopy(Report& report)
{
    constexpr int rows = 37, stride = 640;
    for (const int bytes : {16, 512, 528, 640}) {
        std::vector<std::uint8_t> values(std::size_t(rows) * stride);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = std::uint8_t(i * 7 + i / stride);
        const DeviceArray<std::uint8_t> from(values);
        DeviceArray<std::uint8_t> to(values.size());
        std::vector<RowCopy> table;
        for (int row = 0; row < rows; ++row) // each row goes to where its mirror image was
            table.push_back({from.data() + row * stride, to.data() + (rows - 1 - row) * stride});
        const DeviceArray<RowCopy> tableDevice(table);
        OCTAVO_REQUIRE(launchCopyRows(tableDevice.data(), rows, bytes, nullptr));
        const std::vector<std::uint8_t> got = to.download();
        bool same = true, outside = true;
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < stride; ++i) {
                const std::uint8_t value = got[std::size_t(rows - 1 - row) * stride + std::size_t(i)];
                if (i < bytes)
                    same &= value == values[std::size_t(row) * stride + std::size_t(i)];
                else
                    outside &= value == 0xff;
            }
        }
        report.expect(same && outside, "row copy of %d bytes: a row is wrong or longer", bytes);
    }
    report.expect(launchCopyRows(nullptr, 1, 24, nullptr) == cudaErrorInvalidValue, "row copy of 24 bytes");
}

void checkRowPeak(Report& report)
{
    Random random(17);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    for (const int columns : {1, 31, 16384, 248320}) {
        constexpr int rows = 8;
        std::vector<float> logits(std::size_t(rows) * columns);
        for (float& value : logits)
            value = float(random.normal() * 6.0);
        for (int row = 0; row < rows; ++row) {
            float* at = &logits[std::size_t(row) * columns];
            if (row == 1)
                std::fill_n(at, columns, -3.0f); // all equal
            if (row == 2)
                std::fill_n(at, columns, -infinity);
            if (row == 3)
                at[random.below(columns)] = nan;
            if (row == 4)
                std::fill_n(at, columns, -infinity), at[columns - 1] = -1e30f;
            if (row == 5)
                at[columns / 3] = 200.0f; // certain
            if (row == 6)
                at[random.below(columns)] = infinity;
        }
        const DeviceArray<float> logitsDevice(logits);
        DeviceArray<std::uint8_t> workspace(peakWorkspaceBytes(rows));
        DeviceArray<RowPeak> peaks(rows);
        const MatrixView<const float> view{logitsDevice.data(), rows, columns, columns};
        OCTAVO_REQUIRE(launchRowPeaks(view, workspace.data(), peaks.data(), nullptr));
        const std::vector<RowPeak> all = peaks.download();
        for (int row = 0; row < rows; ++row) {
            const RowPeak got = all[std::size_t(row)],
                          want = referenceRowPeak(&logits[std::size_t(row) * columns], columns);
            const bool near = std::isnan(want.chance) ? std::isnan(got.chance)
                                                      : std::abs(got.chance - want.chance) <= 1e-4f * want.chance;
            report.expect(got.id == want.id && near, "peak of %d, row %d: %d with %g, expected %d with %g", columns,
                          row, got.id, double(got.chance), want.id, double(want.chance));
        }
        // One row alone gives the same bits.
        OCTAVO_REQUIRE(launchRowPeaks({logitsDevice.data() + 7 * std::size_t(columns), 1, columns, columns},
                                      workspace.data(), peaks.data(), nullptr));
        report.expect(peaks.download()[0].chance == all[7].chance, "peak of %d columns depends on its batch", columns);
    }
}

} // namespace octavo::gpu
