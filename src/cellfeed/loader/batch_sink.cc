#include "cellfeed/loader/batch_sink.h"

#include "cellfeed/base/error.h"
#include "cellfeed/loader/csr_sink.h"
#include "cellfeed/loader/dense_sink.h"
#include "cellfeed/loader/options.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/loader/token_sink.h"

namespace cellfeed::loader {

std::shared_ptr<const BatchSink> make_sink(const LoaderOptions& options,
                                           std::shared_ptr<const RowPipeline> pipeline) {
  const std::int64_t n_cols = pipeline->genes().size();
  if (options.output == Output::kDense) return std::make_shared<DenseSink>(n_cols, options.dtype);
  if (options.output == Output::kTokens) {
    if (options.tokens == nullptr) throw_invalid("output \"tokens\" needs a tokenizer");
    if (options.dtype != DType::kF32)
      throw_invalid("tokens are made of float32 values, not of '{}'", dtype_name(options.dtype));
    return std::make_shared<TokenSink>(*options.tokens, pipeline->genes());
  }
  return std::make_shared<CsrSink>(n_cols, options.dtype);
}

}  // namespace cellfeed::loader
