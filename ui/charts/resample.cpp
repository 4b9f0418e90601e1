#include "ui/charts/resample.h"

namespace octavo::ui {

float niceCeiling(float value)
{
    if (!(value > 0))
        return 1.0F;
    const float power = std::pow(10.0F, std::floor(std::log10(value)));
    for (float factor : {1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 8.0F}) {
        if (value <= factor * power * 1.0001F)
            return factor * power;
    }
    return 10.0F * power;
}

} // namespace octavo::ui
