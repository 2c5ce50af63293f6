#include "cellfeed/loader/batch_sink.h"

#include "cellfeed/base/error.h"
#include "cellfeed/loader/csr_sink.h"
#include "cellfeed/loader/dense_sink.h"
#include "cellfeed/loader/options.h"
#include "cellfeed/loader/row_pipeline.h"
#include "cellfeed/loader/token_sink.h"

namespace cellfeed::loader {

std::shared_ptr<const BatchSink> make_sink(const LoaderOptions& options,
                                           const RowPipeline& pipeline) {
  if (options.output == Output::kDense)
    return std::make_shared<DenseSink>(pipeline.genes().size(), options.dtype);
  if (options.output == Output::kTokens) {
    if (options.tokens == nullptr) throw_invalid("output \"tokens\" needs a tokenizer");
    if (options.dtype != DType::kF32)
      throw_invalid("tokens are made of float32 values, not of '{}'", dtype_name(options.dtype));
    return std::make_shared<TokenSink>(*options.tokens, pipeline, options.threads);
  }
  return std::make_shared<CsrSink>(pipeline, options.dtype, options.threads);
}

}  // namespace cellfeed::loader
