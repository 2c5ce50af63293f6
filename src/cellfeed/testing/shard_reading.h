// Everything that can be read of a shard directory, as bytes to compare: what a damaged one may
// give is the same bytes or an error of ours, part by part.
#pragma once

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::testing {

// A part that was read, or the error that kept it from being read.
struct ShardPart {
  std::string bytes;
  std::string error;
  ErrorKind kind = ErrorKind::kInternal;  // of the error
};
using ShardReading = std::map<std::string, ShardPart>;  // by what was read

inline std::string table_bytes(const arrow::Table& table) {
  const auto sink = *arrow::io::BufferOutputStream::Create();
  const auto writer = *arrow::ipc::MakeStreamWriter(sink, table.schema());
  if (!writer->WriteTable(table).ok() || !writer->Close().ok())
    throw std::runtime_error("a table that was read cannot be written");
  return (*sink->Finish())->ToString();
}

template <typename T>
std::string bytes_of(const T* values, std::size_t n) {
  return {reinterpret_cast<const char*>(values), n * sizeof(T)};
}

inline std::string column_bytes(const matrix::FixedColumn& column) {
  std::string bytes(dtype_name(column.dtype));
  bytes += column.ordered ? " ordered " : " ";
  bytes += bytes_of(static_cast<const char*>(column.values),
                    static_cast<std::size_t>(column.length) * dtype_bytes(column.dtype));
  for (std::int64_t i = 0; column.validity != nullptr && i < column.length; ++i)
    bytes += (column.validity[i / 8] >> (i % 8) & 1) != 0 ? '1' : '0';
  if (column.is_categorical)
    for (const std::string& category : matrix::category_texts(column)) bytes += category + "\n";
  return bytes;
}

// All rows at once: columns and values as they were stored, widened to float64.
inline std::string row_bytes(const format::RowStore& store) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(store.info().n_rows));
  std::iota(rows.begin(), rows.end(), 0);
  const auto fetched = format::fetch_rows(store, rows);
  std::vector<std::int64_t> place(rows.size() + 1, 0);
  fetched->sizes(std::span(place).subspan(1));
  std::partial_sum(place.begin(), place.end(), place.begin());
  std::vector<std::int32_t> indices(static_cast<std::size_t>(place.back()));
  std::vector<double> values(indices.size());
  std::vector<std::int32_t> counts(rows.size());
  fetched->decode(0, std::ssize(rows),
                  {.place = place.data(),
                   .indices = indices.data(),
                   .values = values.data(),
                   .dtype = DType::kF64,
                   .casting = Casting::kSameKind,
                   .counts = counts.data()});
  return bytes_of(place.data(), place.size()) + bytes_of(indices.data(), indices.size()) +
         bytes_of(values.data(), values.size());
}

template <typename Read>
void read_part(ShardReading& reading, const std::string& name, const Read& read) {
  ShardPart& part = reading[name];
  try {
    part.bytes = read();
  } catch (const Error& error) {
    part.error = error.what();
    part.kind = error.kind();
  }
}

using Stores = std::vector<std::unique_ptr<format::RowStore>>;

inline ShardReading read_stores(const Stores& stores) {
  ShardReading reading;
  for (std::size_t s = 0; s < stores.size(); ++s) {
    const format::RowStore& store = *stores[s];
    const std::string shard = "shard " + std::to_string(s) + " ";
    read_part(reading, shard + "genes", [&] {
      std::string names;
      for (const std::string& name : store.genes().names) names += name + "\n";
      return names + table_bytes(*store.read_var());
    });
    read_part(reading, shard + "rows", [&] { return row_bytes(store); });
    read_part(reading, shard + "obs",
              [&] { return table_bytes(*store.read_obs(0, store.info().n_rows)); });
    std::vector<std::string> names;
    read_part(reading, shard + "obs names", [&] {
      names = store.obs_names();
      return std::accumulate(names.begin(), names.end(), std::string());
    });
    for (const std::string& name : names)
      read_part(reading, shard + "column " + name,
                [&] { return column_bytes(store.obs_column(name)); });
  }
  return reading;
}

inline ShardReading read_everything(const std::string& path,
                                    const format::OpenOptions& options = {}) {
  ShardReading opening;
  Stores stores;
  read_part(opening, "open", [&] {
    stores = format::open_stores(path, options);
    std::string counts;
    for (const auto& store : stores)
      counts += std::to_string(store->info().n_rows) + " of " +
                std::to_string(store->info().n_cols) + ", ";
    return counts;
  });
  ShardReading reading = read_stores(stores);
  reading.merge(opening);
  return reading;
}

// What of `found` is neither as in `sound` nor an error that names what is wrong; empty when all
// is.
inline std::string wrong_part(const ShardReading& found, const ShardReading& sound) {
  for (const auto& [name, part] : found) {
    if (!part.error.empty()) {
      if (part.kind == ErrorKind::kInternal || part.kind == ErrorKind::kCancelled)
        return name + ": " + part.error;
    } else if (!sound.contains(name) || sound.at(name).bytes != part.bytes) {
      return name + " is read, and is not what was written";
    }
  }
  return {};
}

inline bool has_error(const ShardReading& reading) {
  for (const auto& [name, part] : reading)
    if (!part.error.empty()) return true;
  return false;
}

}  // namespace cellfeed::testing
