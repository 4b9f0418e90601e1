#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/impl_table.h"
#include "kernels/cpu/row_avx512.h"

namespace octavo::kernels::cpu::detail {

const Kernels& avx512Kernels()
{
    static constexpr Kernels table = [] {
        Kernels made = makeKernels(Path::Avx512);
        made.linearInt4 = linearInt4ByRow;
        made.linearInt8 = linearInt8ByRow;
        return made;
    }();
    return table;
}

} // namespace octavo::kernels::cpu::detail
