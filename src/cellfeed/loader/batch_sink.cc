#include "cellfeed/loader/batch_sink.h"

#include "cellfeed/loader/csr_sink.h"
#include "cellfeed/loader/dense_sink.h"
#include "cellfeed/loader/options.h"
#include "cellfeed/loader/row_pipeline.h"

namespace cellfeed::loader {

std::shared_ptr<const BatchSink> make_sink(const LoaderOptions& options,
                                           std::shared_ptr<const RowPipeline> pipeline) {
  const std::int64_t n_columns = pipeline->genes().size();
  if (options.output == Output::kDense)
    return std::make_shared<DenseSink>(n_columns, options.dtype);
  return std::make_shared<CsrSink>(n_columns, options.dtype);
}

}  // namespace cellfeed::loader
