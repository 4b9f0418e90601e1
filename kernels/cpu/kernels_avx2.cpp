#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/impl_table.h"

namespace octavo::kernels::cpu::detail {

const Kernels& avx2Kernels()
{
    static constexpr Kernels table = makeKernels(Path::Avx2);
    return table;
}

} // namespace octavo::kernels::cpu::detail
