// The manifest of a shard directory, shard_metadata.json (docs/format/shard.md, "Manifest"): what
// is there, with a checksum for every file and one for itself. Pure data; reading and writing touch
// the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/shard/encoded_rows.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::format::shard {

inline constexpr const char* kManifestName = "shard_metadata.json";
// Some 50,000 shards. Parsing takes four times as much memory.
inline constexpr std::int64_t kMaxManifestBytes = std::int64_t{32} << 20;
inline constexpr int kManifestVersion = 7;

// What to do about a file of another version of its format.
constexpr const char* remedy_for_version(std::int64_t found, std::int64_t known) {
  return found < known ? "written by an older cellfeed; convert the sources again"
                       : "update cellfeed";
}

enum class GeneOrder { kSource, kMean };

// One file of the directory. checksum: XXH3-64 of all bytes; for .cells the checksum in its header,
// which covers the checksums of everything behind it; for .npy of the bytes behind its header,
// whose text follows from the counts.
struct FileEntry {
  std::string name;
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;
};

// The rows of one shard in a matrix beside the first.
struct ShardMatrix {
  std::int64_t nnz = 0;
  std::int64_t not_finite = 0;
  FileEntry file;  // shard_NNNNNN.mM.cells or .npy
};

struct ShardEntry {
  std::int64_t shard = 0;  // its number, as in the files' names
  std::int64_t first_cell = 0;
  std::int64_t n_cells = 0;
  std::int64_t nnz = 0;
  // NaN and infinite values, as counted by the writer; in JSON as "not_finite".
  std::int64_t not_finite = 0;
  FileEntry matrix;     // shard_NNNNNN.cells or .npy
  FileEntry obs;        // shard_NNNNNN.parquet
  FileEntry fixed_obs;  // shard_NNNNNN.arrow
  // Beside the first, as Manifest::matrices lists them.
  std::vector<ShardMatrix> matrices = {};
  // Its .arrow file ends with kLibrarySizeColumn though Manifest::keeps_library_sizes is not set.
  bool has_own_library_sizes = false;
};
// All of them.
std::vector<const FileEntry*> files_of(const ShardEntry& shard);
std::int64_t bytes_of(const ShardEntry& shard);

struct SourceEntry {
  std::string path;
  std::string layer;
  std::uint64_t fingerprint = 0;
  std::int64_t n_cells = 0;
  std::optional<std::uint64_t> whole_fingerprint = {};  // of all its cells, where some were chosen
};

// Cells that were appended to finished shards, behind those that were there.
struct AppendEntry {
  std::int64_t first_cell = 0;        // of the first shard that was appended
  std::int64_t n_sources = 0;         // of Manifest::sources, behind those that were there
  bool is_shuffled = false;           // among themselves; else in the order of the sources
  std::string selection_json = "{}";  // as Manifest's, of these sources
};

// A further matrix of the same cells.
struct MatrixEntry {
  std::string name;  // "layers/NAME", whose columns are the genes, or "obsm/NAME"
  Layout layout = Layout::kPacked;
  std::int64_t n_cols = 0;
  std::int64_t nnz = 0;
  DType value_dtype = DType::kF32;
  // Names of the columns of a table of obsm; empty for arrays.
  std::vector<std::string> columns{};
};
inline constexpr std::int64_t kMaxObsmColumns = std::int64_t{1} << 20;

struct Manifest {
  Layout layout = Layout::kPacked;
  std::int64_t n_cells = 0;
  std::int64_t n_genes = 0;
  std::int64_t nnz = 0;
  DType value_dtype = DType::kF32;
  GeneOrder gene_order = GeneOrder::kSource;
  // All .arrow files end with the column kLibrarySizeColumn: genes of some source were left out.
  bool keeps_library_sizes = false;
  std::uint64_t gene_fingerprint = 0;  // gene_fingerprint() of the stored axis
  // What was done to the values, as one JSON object: {"normalize_total": 10000.0}.
  std::string processing_json = "{}";
  // What was chosen of the sources, as one JSON object: {"cells_of": all there were, "steps":
  // [...]};
  // "{}": all of them.
  std::string selection_json = "{}";
  std::int64_t shard_size = 0;         // cells asked for per shard
  std::uint64_t plan_fingerprint = 0;  // of the conversion's plan; see PartialManifest
  FileEntry genes;
  std::optional<FileEntry> annotations = {};  // uns and varm of the one source
  std::vector<MatrixEntry> matrices = {};     // beside the first
  std::vector<ShardEntry> shards;             // in order of first_cell
  std::vector<SourceEntry> sources;
  std::vector<AppendEntry> appends = {};  // in the order of their cells
};

// Makes its totals those of its shards.
void sum_up(Manifest& manifest);
// Whether the .arrow file of this shard ends with kLibrarySizeColumn.
bool keeps_library_sizes(const Manifest& manifest, const ShardEntry& shard);
// How many cells an append added.
std::int64_t n_cells_of_append(const Manifest& manifest, std::size_t append);
// What was there before the last append. REQUIRES: there is one.
Manifest without_last_append(Manifest manifest);

// Those of all shards together.
std::vector<const FileEntry*> common_files(const Manifest& manifest);

// A number that depends on the names of the genes and their order.
std::uint64_t gene_fingerprint(const std::vector<std::string>& names);

std::string manifest_to_json(const Manifest& manifest);
// Throws kCorruptData (what is wrong, and where) or kUnsupported (a newer version). dir is for
// messages only.
Manifest manifest_from_json(const std::string& text, const std::string& dir);

void write_manifest(const io::Directory& dir, const Manifest& manifest);  // atomically, replacing
// Throws kNotFound when there is none, saying whether an unfinished conversion lies there and how
// to continue it.
Manifest read_manifest(const std::string& dir);

}  // namespace cellfeed::format::shard
