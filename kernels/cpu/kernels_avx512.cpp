#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/impl_table.h"

namespace octavo::kernels::cpu::detail {

const Kernels& avx512Kernels()
{
    static constexpr Kernels table = makeKernels(Path::Avx512);
    return table;
}

} // namespace octavo::kernels::cpu::detail
