// describe_path: what a file or shard directory holds, without reading its values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/convert/matrix_uses.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/manifest.h"

namespace cellfeed::convert {

struct ColumnDescription {
  std::string name;
  std::string type;                // "categorical", "string", "int64", "float32", "bool", ...
  std::int64_t n_categories = -1;  // -1: not categorical
  bool ordered = false;
};

// Cells that were appended to shards.
struct AppendDescription {
  std::int64_t first_cell = 0, n_cells = 0, n_sources = 0;
  bool is_shuffled = false;
  std::string selection_json = "{}";
};

struct PathDescription {
  std::string path;
  std::string format;  // "h5ad", "shard", ...
  std::string root;    // where in the file its AnnData lies; empty: at its root
  std::string layer;
  std::string layout;  // "packed" or "dense" shards, "csr", "dense" or other files
  // Of matrices that are not stored by rows: how they are, where the rows are kept, and whether
  // they are there. Empty for others.
  std::string storage;
  std::string row_cache;
  bool has_cached_rows = false;
  std::int64_t n_cells = 0;
  std::int64_t n_genes = 0;
  std::int64_t nnz = -1;  // -1: not known without a scan
  std::string value_dtype;
  std::string compression;
  std::vector<MatrixInFile>
      matrices;  // of an AnnData in HDF5, and of shards of more than X; else empty
  // Why the matrix that was asked for cannot be read; what follows is then of another, which layer
  // names. Empty where it can be.
  std::string refused;
  std::string left_out;           // what is not read though nobody chose that
  std::string columns;            // of tables: what their columns were taken for
  std::int64_t bytes = 0;         // of all files
  std::int64_t matrix_bytes = 0;  // of the files that hold the matrix: for bits_per_nonzero
  double density = -1;            // non-zeros per cell and gene; -1: not known
  double bits_per_nonzero = -1;   // matrix_bytes * 8 / nnz; -1: not known
  std::int64_t rows_per_chunk = 1;
  std::int64_t not_finite = -1;  // NaN and infinite values; -1: not known without a scan
  std::vector<ColumnDescription> obs;
  std::vector<ColumnDescription> var;
  std::string obs_refused, var_refused;  // why their columns cannot be read; empty: they can
  // Shard directories only.
  std::int64_t n_shards = 0;
  std::int64_t shard_size = 0;
  std::string gene_order;  // "source" or "mean"; empty for other formats
  std::string processing_json = "{}";
  std::string selection_json = "{}";  // as Manifest says it
  // What var_keys name the genes, where they were asked for; the first few that are there twice.
  std::int64_t n_gene_names = -1;
  std::vector<std::string> repeated_genes{};
  std::vector<format::shard::SourceEntry> sources;
  std::vector<AppendDescription> appends;
};

// Throws what opening throws, unless the file has another matrix that can be read.
// var_keys: see CollectionOptions; the names of genes are counted where some are given.
PathDescription describe_path(const std::string& path, const format::OpenOptions& options = {},
                              const std::vector<std::string>& var_keys = {});

// For people, one fact a line.
std::string description_text(const PathDescription& description);
// For machines: one JSON object; unknown numbers are null.
std::string description_json(const PathDescription& description);

}  // namespace cellfeed::convert
