#include "cellfeed/convert/cell_encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {

namespace shard = format::shard;

CellEncoder::CellEncoder(const Sources& sources, shard::Layout layout, DType value_dtype,
                         KeptTotals library_sizes)
    : sources_(sources),
      library_sizes_(sources, library_sizes),
      layout_(layout),
      value_dtype_(value_dtype) {
  place_genes();
}

void CellEncoder::set_gene_order(std::vector<std::int64_t> gene_order) {
  gene_order_ = std::move(gene_order);
  place_genes();
}

std::vector<std::string> CellEncoder::gene_names() const {
  std::vector<std::string> names = sources_.genes().names;
  for (std::size_t i = 0; i < gene_order_.size(); ++i)
    names[i] = sources_.genes().names[gene_order_[i]];
  return names;
}

void CellEncoder::place_genes() {
  std::vector<std::int32_t> rank(gene_order_.size());
  for (std::size_t i = 0; i < rank.size(); ++i) rank[gene_order_[i]] = static_cast<std::int32_t>(i);
  positions_.clear();
  std::map<const void*, std::shared_ptr<const std::vector<std::int32_t>>> by_map;
  for (std::int64_t s = 0; s < sources_.n_sources(); ++s) {
    const auto map = sources_.gene_map(s);
    auto& positions = by_map[sources_.gene_map_id(s)];
    if (!positions && !(sources_.has_joined_axis(s) && rank.empty())) {
      std::vector<std::int32_t> own(sources_.store(s).genes().names.size());
      for (std::size_t column = 0; column < own.size(); ++column) {
        const std::int32_t joined = map.empty() ? static_cast<std::int32_t>(column) : map[column];
        own[column] = joined < 0 || rank.empty() ? joined : rank[joined];
      }
      positions = std::make_shared<const std::vector<std::int32_t>>(std::move(own));
    }
    positions_.push_back(positions);
  }
}

std::int64_t CellEncoder::dense_row_bytes() const {
  return layout_ == shard::Layout::kDense
             ? sources_.genes().size() * static_cast<std::int64_t>(sizeof(float))
             : 0;
}

std::int64_t CellEncoder::n_genes_left_out() const {
  std::int64_t most = 0;
  for (const auto& positions : positions_)
    if (positions)
      most = std::max<std::int64_t>(
          most, std::ranges::count_if(*positions, [](std::int32_t at) { return at < 0; }));
  return most;
}

// Whether it is a value of the type that is written.
bool CellEncoder::holds(double value) const {
  constexpr double kPast64Bits = 9223372036854775808.0;
  if (value_dtype_ == DType::kF64) return true;
  if (std::isnan(value)) return !is_integer(value_dtype_);
  if (value_dtype_ == DType::kF32)
    return static_cast<double>(static_cast<float>(value)) == value || std::isinf(value);
  if (value != std::floor(value)) return false;
  if (dtype_bytes(value_dtype_) == 8) return value >= -kPast64Bits && value < kPast64Bits;
  return dispatch_dtype(value_dtype_, [&](auto zero) {
    using Limits = std::numeric_limits<decltype(zero)>;
    return value >= static_cast<double>(Limits::lowest()) &&
           value <= static_cast<double>(Limits::max());
  });
}

void CellEncoder::refuse_misfit(std::int64_t source, std::span<const std::int64_t> rows) {
  const auto& store = sources_.store(source);
  const auto piece = pieces_.acquire();
  for (const std::int64_t row : rows) {
    try {
      read_rows(store, {&row, 1}, DType::kF64, Casting::kSameKind, *piece);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPrecision) throw;
      throw_error(ErrorKind::kPrecision, store.info().path,
                  "row {} of {}: entries of one gene that occur more than once sum to more than 64 "
                  "bits hold; sum them in the file, as float64",
                  row, store.info().layer);
    }
    const auto* values = reinterpret_cast<const double*>(piece->values.data());
    for (std::int64_t i = 0; i < piece->indptr.back(); ++i) {
      const std::int32_t column = piece->indices.data()[i];
      const bool is_left_out = positions_[source] && (*positions_[source])[column] < 0;
      if (is_left_out || holds(values[i])) continue;
      if (is_type_of_shards_)
        throw_error(ErrorKind::kPrecision, store.info().path,
                    "row {} of {}, gene '{}': {} does not fit {}, the type that the shards hold; "
                    "convert all files again into new shards",
                    row, store.info().layer, store.genes().names[column], values[i],
                    dtype_name(value_dtype_));
      const bool is_widest = dtype_bytes(value_dtype_) == 8;
      throw_error(ErrorKind::kPrecision, store.info().path,
                  "row {} of {}, gene '{}': {:.0f}{} does not fit {}, {}", row, store.info().layer,
                  store.genes().names[column], values[i],
                  is_widest ? "" : ", with entries that occur more than once summed,",
                  is_widest ? "int64" : dtype_name(value_dtype_),
                  is_widest ? "the widest integers that shards and cached rows hold; store the "
                              "matrix as float64, which rounds it, or read the file itself"
                            : "the type of the matrix; store it in a wider type");
    }
  }
}

shard::EncodedRows CellEncoder::encode(std::int64_t source, std::span<const std::int64_t> rows) {
  try {
    return encode_exactly(source, rows);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPrecision && (is_type_of_shards_ || is_integer(value_dtype_)))
      refuse_misfit(source, rows);
    throw;
  }
}

shard::EncodedRows CellEncoder::encode_exactly(std::int64_t source,
                                               std::span<const std::int64_t> rows) {
  const auto& store = sources_.store(source);
  const auto piece = pieces_.acquire();
  const DType stored = store.info().value_dtype;
  const bool is_widened = value_dtype_ == DType::kI64 && is_integer(stored);
  read_rows(store, rows, is_widened ? DType::kI64 : exact_decode_dtype(stored), Casting::kExact,
            *piece);
  std::vector<double> library_sizes = library_sizes_.of(source, rows, *piece);
  if (const auto& positions = positions_[source])
    renumber_columns(*piece, *positions, sources_.genes().size());
  shard::CsrSlice slice;
  slice.indptr = piece->indptr;
  slice.indices = piece->indices.data();
  slice.values = piece->values.data();
  slice.dtype = piece->dtype;
  shard::RowEncoding encoding;
  encoding.layout = layout_;
  encoding.n_genes = sources_.genes().size();
  encoding.value_dtype = value_dtype_;
  try {
    auto encoded = shard::encode_rows(slice, encoding, spares_.take());
    encoded.row_library_sizes = std::move(library_sizes);
    return encoded;
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("in the piece that begins with row {}: {}", rows.front(), error.what()),
                store.info().path);
  }
}

}  // namespace cellfeed::convert
