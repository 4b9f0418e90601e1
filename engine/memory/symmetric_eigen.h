#pragma once

/// Eigenvectors of a small symmetric matrix by cyclic Jacobi rotations: slow for large ones, exact to the last digits,
/// and the same everywhere.
/// Source   Golub & Van Loan, Matrix Computations, 8.5.

#include <vector>

namespace octavo::engine {

struct SymmetricEigen {
    std::vector<double> values;  ///< (n), largest first
    std::vector<double> vectors; ///< (n, n), row i belongs to values[i], of length 1
};

/// `matrix`: (n, n), symmetric; only its upper triangle is read. Vectors get the sign that makes their largest entry
/// positive.
SymmetricEigen symmetricEigen(std::vector<double> matrix, int n);

} // namespace octavo::engine
