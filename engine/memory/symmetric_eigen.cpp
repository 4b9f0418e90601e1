#include "engine/memory/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace octavo::engine {

namespace {

constexpr int maxSweeps = 60;

// Rotates rows p and q of a matrix whose rows are `n` long.
void rotateRows(double* p, double* q, int n, double cosine, double sine)
{
    for (int i = 0; i < n; ++i) {
        const double a = p[i], b = q[i];
        p[i] = cosine * a - sine * b;
        q[i] = sine * a + cosine * b;
    }
}

} // namespace

SymmetricEigen symmetricEigen(std::vector<double> a, int n)
{
    const auto size = std::size_t(n);
    const auto at = [&](int row, int column) -> double& { return a[std::size_t(row) * size + std::size_t(column)]; };
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < i; ++j)
            at(i, j) = at(j, i);
    }
    std::vector<double> vectors(size * size);
    for (std::size_t i = 0; i < size; ++i)
        vectors[i * size + i] = 1.0;

    const double norm = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
    for (int sweep = 0; sweep < maxSweeps; ++sweep) {
        double off = 0.0;
        for (int i = 0; i < n; ++i) {
            for (int j = i + 1; j < n; ++j)
                off += at(i, j) * at(i, j);
        }
        if (off <= 1e-26 * norm)
            break;
        for (int p = 0; p < n; ++p) {
            for (int q = p + 1; q < n; ++q) {
                const double apq = at(p, q);
                if (apq * apq <= 1e-32 * norm)
                    continue;
                const double theta = (at(q, q) - at(p, p)) / (2.0 * apq);
                const double tangent = (theta >= 0 ? 1.0 : -1.0) / (std::abs(theta) + std::sqrt(theta * theta + 1.0));
                const double cosine = 1.0 / std::sqrt(tangent * tangent + 1.0), sine = tangent * cosine;
                rotateRows(&at(p, 0), &at(q, 0), n, cosine, sine);
                // The matrix stays symmetric, so its columns follow from the rows but for the 2x2 block they share.
                const double pp = at(p, p), pq = at(p, q), qp = at(q, p), qq = at(q, q);
                at(p, p) = cosine * pp - sine * pq;
                at(q, q) = sine * qp + cosine * qq;
                at(p, q) = at(q, p) = 0.0;
                for (int i = 0; i < n; ++i) {
                    if (i != p && i != q) {
                        at(i, p) = at(p, i);
                        at(i, q) = at(q, i);
                    }
                }
                rotateRows(&vectors[std::size_t(p) * size], &vectors[std::size_t(q) * size], n, cosine, sine);
            }
        }
    }

    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return at(x, x) > at(y, y); });
    SymmetricEigen result;
    for (const int i : order) {
        result.values.push_back(at(i, i));
        const auto begin = vectors.begin() + i * std::ptrdiff_t(size), end = begin + std::ptrdiff_t(size);
        const double peak = *std::max_element(begin, end, [](double x, double y) { return std::abs(x) < std::abs(y); });
        std::transform(begin, end, std::back_inserter(result.vectors), [&](double x) { return peak < 0 ? -x : x; });
    }
    return result;
}

} // namespace octavo::engine
