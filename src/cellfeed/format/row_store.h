// RowStore: one dataset on disk, read by rows. The seam every format implements.
//
// To add a format: derive from RowStore in a folder of its own, register it in registry.cc with one
// line, and run the conformance suite of testing/row_store_conformance.h on it. format/memory is
// the reference. Thread-safe: all const methods may be called from several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/matrix/csr.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::format {

struct StoreInfo {
  std::string path;
  std::string format;  // "h5ad", "shard", "memory"
  std::string layer;   // "X", "raw/X", "layers/counts"
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  std::int64_t nnz = -1;            // -1: not known without a scan
  DType value_dtype = DType::kF32;  // as stored
  bool is_dense = false;
  std::string compression;  // "none", "gzip", "lzf", "packed", ...
  // Rows that cost one read together (rows of a compressed chunk); 1 where single rows are cheap.
  std::int64_t rows_per_chunk = 1;
  std::int64_t bytes_on_disk = 0;
  // Values and indices once inflated; 0 where nothing is compressed in chunks.
  std::int64_t inflated_bytes = 0;
  // Memory that each thread takes while it fetches, such as a chunk being inflated.
  std::int64_t scratch_bytes = 0;
};

// Where decoded rows go. Row i of the request writes at most sizes()[i] entries from position
// place[i]. Lifetime: all pointers outlive the decode call.
struct CsrSink {
  const std::int64_t* place = nullptr;  // one per row of the request
  std::int32_t* indices = nullptr;
  void* values = nullptr;     // of dtype
  DType dtype = DType::kF32;  // kF32, kF64, kI32 or kI64
  Casting casting = Casting::kExact;
  // Entries really written per row: fewer than sized when duplicates were summed. One per row of
  // the request.
  std::int32_t* counts = nullptr;
  // The rows are not read again soon: where they are only copied, the caches are left to others
  // (non-temporal stores). They are visible to other threads when decode returns, as always.
  bool past_caches = false;
};

// The bytes of some rows, ready to be sized and decoded. Thread-safe: decode may run on disjoint
// ranges at once.
class FetchedRows {
 public:
  virtual ~FetchedRows() = default;
  virtual std::int64_t n_rows() const = 0;
  // Returns when the bytes are there; fetch may have returned before. Throws what reading them
  // threw, as decode then does, which waits by itself.
  virtual void wait() const {}
  // An upper bound of the non-zeros of each row, exact unless the row holds duplicate entries.
  virtual void sizes(std::span<std::int64_t> nnz) const = 0;
  // Decodes rows [begin, end) of the request: indices sorted and unique, duplicates summed,
  // explicit zeros kept. Throws kCorruptData (file, row, offset) or kPrecision (file, row, value;
  // what to ask for instead).
  virtual void decode(std::int64_t begin, std::int64_t end, const CsrSink& sink) const = 0;
  virtual std::int64_t bytes_read() const = 0;  // from the source, after coalescing
  virtual std::int64_t bytes_used() const = 0;  // of the rows asked for
  virtual std::int64_t bytes_held() const {
    return 0;
  }  // memory this object keeps; 0 for memory maps
};

// Runs n independent tasks, on the caller's threads; rethrows the first error.
using ParallelFor =
    std::function<void(std::int64_t n, const std::function<void(std::int64_t)>& task)>;
void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& task);

class RowStore {
 public:
  virtual ~RowStore() = default;
  virtual const StoreInfo& info() const = 0;
  virtual const matrix::GeneAxis& genes() const = 0;
  // Rows in any order, repeats allowed. Reads coalesce, and may still be under way when this
  // returns; compressed chunks are inflated once per call, by `parallel`. REQUIRES: rows in [0,
  // n_rows); throws kOutOfRange otherwise.
  virtual std::unique_ptr<FetchedRows> fetch(std::span<const std::int64_t> rows,
                                             const ParallelFor& parallel) const = 0;
  // Upper bound of the memory that fetch of these rows will hold, for the byte budget.
  virtual std::int64_t plan_fetch_bytes(std::span<const std::int64_t> rows) const = 0;

  // Lets the system take back mapped memory behind the rows read so far, for readers that pass over
  // a store once.
  virtual void release_pages() const {}

  // Bounds the inflated chunks kept between fetches, from now on; nothing to do where nothing is
  // inflated. For the collection: it knows who shares the store.
  virtual void set_cache_bytes(std::int64_t) const {}

  virtual std::vector<std::string> obs_names() const = 0;  // column names, in the file's order
  // One column for gathering; throws kNoSuchKey naming the columns there are.
  virtual matrix::FixedColumn obs_column(const std::string& name) const = 0;
  // Rows [begin, end) of all obs columns with the index as the first column "_index" (strings).
  virtual std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const = 0;
  // The gene table: "_index" first, then every var column.
  virtual std::shared_ptr<arrow::Table> read_var() const = 0;
  // A number that follows from what is stored, not from where it lies or when it was written: for
  // resume and manifests.
  virtual std::uint64_t fingerprint() const = 0;
};

struct OpenOptions {
  std::string layer =
      "X";  // "X", "raw/X" (also "raw"), or a layer's name ("counts" or "layers/counts")
  // Inflated chunks kept between fetches, of compressed files; of a collection, all together.
  std::int64_t cache_bytes = 256 << 20;
  // How rows are read. "auto": through a memory map, with deep read-ahead of what is not in memory;
  // "map": through a memory map, as the system likes. For packed shards also "pread" and "uring"
  // (into buffers), and "direct" (past the page cache); other files are then read as with "auto".
  std::string access = "auto";
  // Whether what is read of a shard directory is compared with its checksums: "always", for a few
  // hundredths of the time that decoding takes, or "never". Other files have no checksums of ours.
  std::string verify = "always";
};

// Opens one path by its content (not by its name alone). A shard directory gives one store per
// shard.
std::vector<std::unique_ptr<RowStore>> open_stores(const std::string& path,
                                                   const OpenOptions& options);

}  // namespace cellfeed::format
