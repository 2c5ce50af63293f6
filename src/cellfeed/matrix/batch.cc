#include "cellfeed/matrix/batch.h"

#include <numeric>

namespace cellfeed::matrix {

std::int64_t block_nnz(const Block& block) {
  if (const auto* csr = std::get_if<CsrBlock>(&block)) return csr->indptr[csr->n_rows];
  const auto* tokens = std::get_if<TokenBlock>(&block);
  if (tokens == nullptr) return 0;
  const auto* lengths = tokens->at<std::int32_t>(tokens->layout.lengths);
  return std::accumulate(lengths, lengths + tokens->n_rows, std::int64_t{0});
}

}  // namespace cellfeed::matrix
