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
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/processing.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/seen_files.h"
#include "cellfeed/matrix/csr.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::format {

// Of obs: totals of cells that are not those of their rows. No other column has the name.
inline constexpr const char* kLibrarySizeColumn = "_library_size";

struct StoreInfo {
  std::string path;
  std::string format;  // "h5ad", "shard", "memory"
  std::string layer;   // "X", "raw/X", "layers/counts", "obsm/X_pca", "none"
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
  // Of a store that gives some rows of another: how many that has, and a number that follows from
  // which they are.
  struct Selected {
    std::int64_t n_rows = 0;
    std::uint64_t rows = 0;
  };
  std::optional<Selected> selected{};
  // What of the file is left out though nobody asked for that, and how to have it; else empty.
  std::string left_out{};
  // Where in the file its AnnData lies, other than at the root: "mod/rna", "tables/table".
  std::string root{};
  // Of tables: what their columns were taken for.
  std::string columns{};
  // What options chose of the file beside the layer: two matrices that one layer may be, such as
  // the features of two types, have other texts. Empty where a layer is one matrix.
  std::string choice{};
};

// Whether a matrix is one of obsm. Its columns are no genes: their names are numbers, "0", "1",
// ..., unless it is a table.
inline bool is_obsm(std::string_view layer) { return layer.starts_with("obsm/"); }
std::vector<std::string> column_numbers(std::int64_t n_cols);
// Where a matrix lies in a file by the name that users give it: "X", "raw/X" and what is in
// "layers/" or "obsm/" are paths, any other name is that of a layer.
std::string layer_path(const std::string& name);
// The shortest name of the matrix at a path: "counts" for "layers/counts".
std::string layer_key(const std::string& path);

// The group that holds the modalities of a MuData, as in "mod/rna".
inline constexpr std::string_view kModalities = "mod/";
// The one that lies there; empty where it is none.
std::string modality_at(const std::string& root);

// As a layer: none of the matrices, obs alone. A layer that is really called so is "layers/none".
inline constexpr const char* kNoLayer = "none";

// Where decoded rows go. Row i of the request writes at most sizes()[i] entries from position
// place[i]. Lifetime: all pointers outlive the decode call.
struct CsrTarget {
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

// Where rows go that are stored dense and wanted dense. Lifetime: all pointers outlive the call.
struct DenseTarget {
  const std::int64_t* place = nullptr;  // first value of each row of the request
  void* values = nullptr;               // of dtype
  DType dtype = DType::kF32;            // kF32, kF64, kI32 or kI64
  Casting casting = Casting::kExact;
  // The stored column of each value of a row, -1 for a zero. Empty: all columns as they are stored.
  std::span<const std::int32_t> columns = {};
  bool past_caches = false;  // as in CsrTarget
};

// What reading some rows takes, known before it begins.
struct ReadPlan {
  // Memory that the rows hold at most until they are let go, but for what caches hold.
  std::int64_t bytes_held = 0;
  // Of compressed chunks, each inflated whole and once; 0 where rows are decoded as they are
  // stored. Chunks that a cache holds count too.
  std::int64_t bytes_inflated = 0;
  // Of rows, as they are stored, to have under way at once: in_flight_bytes of the source.
  std::int64_t read_ahead_bytes = io::ReadCosts{}.in_flight_bytes;
};

struct ReadContext {
  std::stop_token stop{};  // once it is requested, any step may throw kCancelled
  // Whether rows become sparse: else those that are stored dense are not counted, and sizes says
  // their columns.
  bool counts_entries = true;
};

class MovedRows;

// Rows on their way from a store, in steps of which only wait() waits for the source:
//
//   begin() -> wait() -> run(i) for every i below n_tasks(), on any threads -> sizes(), decode()
//
// So the latencies of many stores pass together, and the work of all of them is shared out at once.
// It may be destroyed after any step. Thread-safe: run of different tasks, and then decode of
// disjoint ranges, at once. Lifetime: the store outlives it.
class FetchedRows {
 public:
  virtual ~FetchedRows() = default;
  virtual std::int64_t n_rows() const = 0;
  // Returns when the bytes are there; throws what reading them threw.
  virtual void wait() {}
  // Chunks to inflate, rows to count: what is left to do before rows can be sized. REQUIRES: waited
  // for.
  virtual std::int64_t n_tasks() const { return 0; }
  // REQUIRES: waited for, task < n_tasks(), each once.
  virtual void run(std::int64_t task);
  // An upper bound of the non-zeros of each row, exact unless the row holds duplicate entries, or
  // some of columns that the store leaves out.
  // REQUIRES, as all below: every task has run.
  virtual void sizes(std::span<std::int64_t> nnz) const = 0;
  // Has the bytes of rows [begin, end) brought into the processor's caches: they are decoded soon.
  // decode does so by itself for all but the first kRowsAhead rows that it is given.
  virtual void prefetch(std::int64_t, std::int64_t) const {}
  // Decodes rows [begin, end) of the request: indices sorted and unique, duplicates summed,
  // explicit zeros kept. Throws kCorruptData (file, row, offset) or kPrecision (file, row, value;
  // what to ask for instead).
  virtual void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const = 0;
  // What these rows can do beside that (moved_rows.h); null for none of it.
  virtual const MovedRows* moved() const { return nullptr; }
  // Whether rows are stored dense, and so can be decoded without a list of their entries.
  virtual bool is_dense() const { return false; }
  // As decode, of dense rows: every value of a row is written. REQUIRES: is_dense().
  virtual void decode_dense(std::int64_t begin, std::int64_t end, const DenseTarget& target) const;
  virtual std::int64_t bytes_read() const = 0;  // from the source, after coalescing
  virtual std::int64_t bytes_used() const = 0;  // of the rows asked for; known from the beginning
  // Memory this object keeps; 0 for memory maps.
  virtual std::int64_t bytes_held() const { return 0; }
};
inline constexpr std::int64_t kRowsAhead = 4;

// Runs n independent tasks, on the caller's threads; rethrows the first error.
using ParallelFor =
    std::function<void(std::int64_t n, const std::function<void(std::int64_t)>& task)>;
void run_serially(std::int64_t n, const std::function<void(std::int64_t)>& task);

// Rows as packed records of docs/format/record.md, for decoding elsewhere.
struct PackedRecords {
  std::int64_t n_cols = 0;
  DType value_dtype = DType::kF32;
  // The stored bytes that the records lie in, checksums included, and 64 zeros: decoders over-read.
  std::vector<std::byte> bytes;
  // Of each row: where its record begins in them, its bytes without the checksum, its entries.
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> nnz;
};

class RowStore {
 public:
  virtual ~RowStore() = default;
  virtual const StoreInfo& info() const = 0;
  virtual const matrix::GeneAxis& genes() const = 0;
  // Begins to read rows, in any order, repeats allowed, and returns without waiting for them. Reads
  // coalesce; a compressed chunk is one task. REQUIRES: rows in [0, n_rows); throws kOutOfRange
  // otherwise.
  virtual std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const ReadContext& context = {}) const = 0;
  // What begin of these rows will take. May read where the rows lie. REQUIRES: as begin.
  virtual ReadPlan plan(std::span<const std::int64_t> rows) const = 0;

  // Rows [begin, end) as they are stored, their checksums compared; empty where rows are not stored
  // so. Throws kOutOfRange, and what reading them throws.
  virtual std::optional<PackedRecords> packed_records(std::int64_t, std::int64_t) const {
    return std::nullopt;
  }

  // Lets the system take back mapped memory behind the rows read so far, for readers that pass over
  // a store once.
  virtual void release_pages() const {}

  // Bounds the inflated chunks kept between fetches, for whoever reads: rows are the same whatever
  // is kept, so that the store is const. For the collection: it knows who shares the store.
  virtual void set_cache_bytes(std::int64_t) const {}

  virtual std::vector<std::string> obs_names() const = 0;  // column names, in the file's order
  // One column for gathering; throws kNoSuchKey naming the columns there are.
  virtual matrix::FixedColumn obs_column(const std::string& name) const = 0;
  // Rows [begin, end) of all obs columns with the index as the first column "_index" (strings).
  virtual std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const = 0;
  // The gene table: "_index" first, then every var column.
  virtual std::shared_ptr<arrow::Table> read_var() const = 0;
  // Each cell's total over all genes of its source, where this store has but some of them: float64,
  // none missing. Empty where the total of a row is the cell's. An obs column kLibrarySizeColumn
  // beside X is one that an export wrote; throws kInvalidArgument where it cannot be.
  virtual std::optional<matrix::FixedColumn> known_library_sizes() const;
  // What was done to the values of this matrix before, as its file says.
  virtual Processing processing() const { return {}; }
  // The rows of the file that these are, for a store of some of its rows; empty for all others.
  virtual std::vector<std::int64_t> source_rows(std::span<const std::int64_t>) const { return {}; }
  // A number that follows from what is stored, not from where it lies or when it was written: for
  // resume and manifests.
  virtual std::uint64_t fingerprint() const = 0;
  // Of a store that is a folder, opened with OpenOptions::looks_at_files: what the files that its
  // rows, obs and var come from were before any of them was read, each of which is compared with
  // that as it is read. Null of others, and where the folder cannot be listed.
  virtual std::shared_ptr<const io::SeenFiles> seen_files() const { return nullptr; }
  // Of all that is stored, where this store is of some of the rows.
  virtual std::uint64_t whole_fingerprint() const { return fingerprint(); }
};

// All steps up to sizes(), for whoever reads one store at a time.
std::unique_ptr<FetchedRows> fetch_rows(const RowStore& store, std::span<const std::int64_t> rows,
                                        const ParallelFor& parallel = run_serially);

struct FileChoice;
// Throws kNoSuchKey where none of the stores has one of the columns that are named as obs.
void require_obs_columns(std::span<const std::unique_ptr<RowStore>> stores,
                         const FileChoice& choice);

class EntryStore;
struct OpenOptions;
// Stores of the rows of a matrix that is stored otherwise, in their order.
using RowMaker = std::function<std::vector<std::unique_ptr<RowStore>>(std::unique_ptr<EntryStore>,
                                                                      const OpenOptions&)>;

// Of Parquet tables: what their columns are, where names and types do not tell.
struct TableOptions {
  // Of tables of a list of genes and a list of values for each cell: the columns of these.
  std::string genes_column{}, values_column{};
  // A Parquet table of a row for each gene: which ids the lists hold, and what these genes are.
  std::string var{};
  // Of tables of a column for each gene: numeric columns that are none. Files may lack them.
  std::vector<std::string> obs_columns{};
};

// Which matrix of a file is read, and how, where the file holds several or does not tell. What is
// given for files of another format is an error, but for obs_columns.
struct FileChoice {
  // 10x .h5 files: reads the features of this genome. Empty: of any; a file with one matrix for
  // each genome needs a name. feature_type, also for .mtx: reads the features of this type, or
  // "all". Empty: gene expression, and left_out says what else there is.
  std::string genome{};
  std::string feature_type{};
  std::string modality{};  // of a MuData
  // .mtx: whether the rows of the file are genes, as in 10x folders. Empty: the names of the files
  // tell which program wrote them, and so the orientation; where it does not fit the lengths of the
  // lists, the other one is tried.
  std::optional<bool> transpose{};
  TableOptions table{};
};

struct OpenOptions {
  // As layer_path takes it. kNoLayer: the cells have no genes.
  std::string layer = "X";
  // Instead of layer: of each file the first of these that it has.
  std::vector<std::string> layer_choices{};
  // Inflated chunks kept between fetches, of compressed files; of a collection, all together.
  std::int64_t cache_bytes = 256 << 20;
  // How rows are read. "auto": through a memory map, with deep read-ahead of what is not in memory;
  // "map": through a memory map, as the system likes. For packed shards also "pread" and "uring"
  // (into buffers), and "direct" (past the page cache); other files are then read as with "auto".
  std::string access = "auto";
  // Whether what is read of a shard directory is compared with its checksums: "always", for a few
  // hundredths of the time that decoding takes, or "never". Other files have no checksums of ours.
  std::string verify = "always";
  // What is done with a matrix that is not stored by rows. Null: it is refused.
  RowMaker row_maker{};
  FileChoice choice{};
  // Rows are read from front to back, and release_pages is called behind them: what was decoded
  // last is kept until then.
  bool reads_in_order = false;
  // For RowStore::seen_files: a look at each file of a folder, 2 s more where it was just written.
  bool looks_at_files = false;
};

// Opens one path by its content (not by its name alone). A shard directory gives one store per
// shard.
std::vector<std::unique_ptr<RowStore>> open_stores(const std::string& path,
                                                   const OpenOptions& options);
// Those of several paths, in order, opened side by side; rows are made by the caller's thread then.
std::vector<std::unique_ptr<RowStore>> open_stores(const std::vector<std::string>& paths,
                                                   const OpenOptions& options);

}  // namespace cellfeed::format
