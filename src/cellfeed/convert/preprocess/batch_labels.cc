#include "cellfeed/convert/preprocess/batch_labels.h"

#include <algorithm>
#include <map>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {
namespace {

std::int64_t code_at(const matrix::FixedColumn& column, std::int64_t row) {
  return dispatch_dtype(column.dtype, [&](auto zero) -> std::int64_t {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      return static_cast<std::int64_t>(static_cast<const T*>(column.values)[row]);
    return -1;
  });
}

}  // namespace

BatchLabels::BatchLabels(const Sources& sources, const std::string& key) : key_(key) {
  if (key.empty()) {
    names_ = {""};
    return;
  }
  std::map<std::string, std::int64_t> places;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s) {
    const format::RowStore& store = sources.store(s);
    sources_.push_back({store.obs_column(key), {}, store.info().path, &store});
    const matrix::FixedColumn& column = sources_.back().column;
    if (!column.is_categorical)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("obs column '{}' holds numbers, not labels of batches; make it "
                              "categorical or text",
                              key),
                  store.info().path);
    for (const std::string& name : matrix::category_texts(column)) places.emplace(name, 0);
  }
  for (auto& [name, place] : places) {
    place = std::ssize(names_);
    names_.push_back(name);
  }
  for (OfSource& source : sources_)
    for (const std::string& name : matrix::category_texts(source.column))
      source.batch_of_code.push_back(places.at(name));
}

std::int64_t BatchLabels::of(std::int64_t source, std::int64_t row) const {
  if (sources_.empty()) return 0;
  const OfSource& of = sources_[source];
  const std::int64_t code = code_at(of.column, row);
  if (code < 0 || code >= std::ssize(of.batch_of_code)) {
    const auto in_file = of.store->source_rows(std::vector<std::int64_t>{row});
    throw_error(ErrorKind::kInvalidArgument, of.path,
                "cell {} has no '{}', and belongs to no batch; fill it in, or leave the cell out",
                in_file.empty() ? row : in_file.front(), key_);
  }
  return of.batch_of_code[code];
}

}  // namespace cellfeed::convert
