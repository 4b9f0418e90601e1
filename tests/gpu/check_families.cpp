#include "tests/gpu/checks.h"

namespace octavo::gpu
{

std::span<const Family> checkFamilies()
{
    static const Family families[] = {
        {"w4_gemm", checkW4Gemm},
        {"argmax", checkArgmax},
        {"row_copy", checkRowCopy},
        {"row_peak", checkRowPeak},
        {"gdn_decode", checkGdnDecode},
        {"elementwise", checkElementwise},
        {"kv_rows", checkKvRows},
        {"attention_decode", checkAttentionDecode},
        {"select", checkSelect},
        {"sketch", checkSketch},
        {"hot_buffer", checkHotBuffer},
    };
    return families;
}

} // namespace octavo::gpu
