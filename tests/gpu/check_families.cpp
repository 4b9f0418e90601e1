#include "tests/gpu/checks.h"

namespace octavo::gpu
{

std::span<const Family> checkFamilies()
{
    static const Family families[] = {
        {"w4_gemm", checkW4Gemm},       {"argmax", checkArgmax},
        {"row_copy", checkRowCopy},     {"row_peak", checkRowPeak},
        {"gdn_decode", checkGdnDecode}, {"elementwise", checkElementwise},
        {"kv_rows", checkKvRows},       {"attention_decode", checkAttentionDecode},
        {"sketch", checkSketch},        {"attention_input", checkAttentionInput},
        {"hot_buffer", checkHotBuffer}, {"prefill_attention", checkPrefillAttention},
        {"gdn_chunk", checkGdnChunks},  {"bf16_gemm", checkBf16Gemm},
        {"bf16_rows", checkBf16Rows},
    };
    return families;
}

} // namespace octavo::gpu
