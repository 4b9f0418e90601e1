#include "kernels/cpu/vec_plain.h"

#include "kernels/cpu/impl_table.h"

namespace octavo::kernels::cpu::detail {

const Kernels& plainKernels()
{
    static constexpr Kernels table = makeKernels(Path::Plain);
    return table;
}

} // namespace octavo::kernels::cpu::detail
