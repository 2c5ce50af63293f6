#include "cellfeed/format/shard/manifest.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/checked_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/manifest_json.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::format::shard {
namespace {

constexpr const char* kFormatName = "cellfeed-shards";
// The manifest ends with its own checksum, of the text with these digits in its place.
constexpr std::string_view kNoChecksum = "0000000000000000";
constexpr std::string_view kTail = "\"\n}\n";
// What few manifests have.
constexpr const char* kAppendsKey = "appends";
constexpr const char* kWholeKey = "whole_fingerprint";

std::size_t checksum_position(const std::string& text) {
  return text.size() - kTail.size() - kNoChecksum.size();
}

// Of the text with kNoChecksum in place of its checksum, without a copy of it.
std::uint64_t hash_without_checksum(std::string_view text) {
  const std::size_t position = text.size() - kTail.size() - kNoChecksum.size();
  RunningChecksum checksum;
  for (const std::string_view part : {text.substr(0, position), kNoChecksum, kTail})
    checksum.add(std::as_bytes(std::span(part)));
  return checksum.value();
}

void check_own_checksum(const std::string& text, const std::string& path) {
  const std::string before = "  \"checksum\": \"";
  const bool has_tail =
      text.size() > kTail.size() + kNoChecksum.size() + before.size() && text.ends_with(kTail) &&
      text.compare(checksum_position(text) - before.size(), before.size(), before) == 0;
  if (!has_tail)
    throw_error(
        ErrorKind::kCorruptData, path,
        "truncated or not a manifest of cellfeed: it does not end with its checksum; restore it");
  const std::string expected = checksum_to_text(hash_without_checksum(text));
  const std::string found = text.substr(checksum_position(text), kNoChecksum.size());
  if (found != expected)
    throw_error(ErrorKind::kCorruptData, path,
                "damaged or edited: its checksum is {} where its text has {}; restore it", found,
                expected);
}

// Of manifest.matrices, beside the sums over shards.
void check_matrices(const Manifest& manifest, const std::string& path) {
  std::set<std::string> names;
  for (const MatrixEntry& matrix : manifest.matrices) {
    const auto refuse = [&](const char* what) {
      throw_error(ErrorKind::kCorruptData, path, "matrix '{}' {}", matrix.name, what);
    };
    const bool is_layer = matrix.name.starts_with("layers/");
    if (!is_layer && !is_obsm(matrix.name)) refuse("is neither a layer nor one of obsm");
    if (!names.insert(matrix.name).second) refuse("is listed twice");
    if (is_layer && matrix.n_cols != manifest.n_genes) refuse("has other columns than the genes");
    if (!is_layer && matrix.n_cols > kMaxObsmColumns) refuse("has more columns than can be");
    if (!matrix.columns.empty() && (is_layer || std::ssize(matrix.columns) != matrix.n_cols))
      refuse("has other columns than are named");
    if (matrix.layout == Layout::kDense && matrix.value_dtype != DType::kF32)
      refuse("is dense, and not of float32");
  }
}

void check_shard_matrices(const Manifest& manifest, const ShardEntry& shard,
                          std::vector<CheckedSize>& nnz, const std::string& path) {
  if (shard.matrices.size() != manifest.matrices.size())
    throw_error(ErrorKind::kCorruptData, path,
                "shard {} has {} further matrices, and {} are listed", shard.shard,
                shard.matrices.size(), manifest.matrices.size());
  for (std::size_t m = 0; m < nnz.size(); ++m) {
    nnz[m] += shard.matrices[m].nnz;
    if (!nnz[m].fits())
      throw_error(ErrorKind::kCorruptData, path, "'{}' holds more values than there can be",
                  manifest.matrices[m].name);
  }
}

void check_counts(const Manifest& manifest, const std::string& path) {
  if (manifest.n_genes > INT32_MAX)
    throw_error(ErrorKind::kCorruptData, path, "n_genes is {}, at most {} fit", manifest.n_genes,
                INT32_MAX);
  CheckedSize cells = 0;
  CheckedSize nnz = 0;
  CheckedSize bytes = 0;
  CheckedSize not_finite = 0;
  check_matrices(manifest, path);
  std::vector<CheckedSize> matrix_nnz(manifest.matrices.size(), 0);
  // Each name takes some bytes: a number without them would only take memory.
  if (manifest.n_genes / 4 > manifest.genes.bytes)
    throw_error(ErrorKind::kCorruptData, path, "{} genes in a file of {} bytes", manifest.n_genes,
                manifest.genes.bytes);
  std::set<std::string> names;
  const auto count_file = [&](const FileEntry& file) {
    bytes += file.bytes;
    if (!names.insert(file.name).second)
      throw_error(ErrorKind::kCorruptData, path, "a file is named twice: '{}'", file.name);
  };
  for (const FileEntry* file : common_files(manifest)) count_file(*file);
  for (const auto& shard : manifest.shards) {
    if (!(cells == shard.first_cell))
      throw_error(ErrorKind::kCorruptData, path,
                  "shard {} begins at cell {} where the shards before it hold {}", shard.shard,
                  shard.first_cell, cells.value());
    // '_source_row' alone takes 8 bytes a cell.
    if (shard.n_cells > shard.fixed_obs.bytes / 8)
      throw_error(ErrorKind::kCorruptData, path, "{} cells of shard {} in a file of {} bytes: '{}'",
                  shard.n_cells, shard.shard, shard.fixed_obs.bytes, shard.fixed_obs.name);
    cells += shard.n_cells;
    nnz += shard.nnz;
    not_finite += shard.not_finite;
    check_shard_matrices(manifest, shard, matrix_nnz, path);
    for (const FileEntry* file : files_of(shard)) count_file(*file);
    if (!cells.fits() || !nnz.fits() || !bytes.fits() || !not_finite.fits())
      throw_error(ErrorKind::kCorruptData, path,
                  "its shards up to number {} hold more cells, values or bytes than there can be",
                  shard.shard);
  }
  if (!(cells == manifest.n_cells) || !(nnz == manifest.nnz))
    throw_error(ErrorKind::kCorruptData, path,
                "its shards hold {} cells and {} non-zeros, its totals say {} and {}",
                cells.value(), nnz.value(), manifest.n_cells, manifest.nnz);
  for (std::size_t m = 0; m < matrix_nnz.size(); ++m)
    if (!(matrix_nnz[m] == manifest.matrices[m].nnz))
      throw_error(ErrorKind::kCorruptData, path, "the shards of '{}' hold {} non-zeros, it says {}",
                  manifest.matrices[m].name, matrix_nnz[m].value(), manifest.matrices[m].nnz);
}

// Each begins with a shard, behind the one before, and its sources are among those that there are.
void check_appends(const Manifest& manifest, const std::string& path) {
  std::int64_t before = 0;
  CheckedSize n_sources = 0;
  for (const AppendEntry& append : manifest.appends) {
    const bool is_of_shard = std::ranges::any_of(manifest.shards, [&](const ShardEntry& shard) {
      return shard.first_cell == append.first_cell && shard.n_cells > 0;
    });
    n_sources += append.n_sources;
    if (append.first_cell <= before || !is_of_shard || append.n_sources < 1 || !n_sources.fits() ||
        n_sources.value() >= std::ssize(manifest.sources))
      throw_error(ErrorKind::kCorruptData, path,
                  "cells of {} sources were appended at cell {}, and its shards and sources are "
                  "others",
                  append.n_sources, append.first_cell);
    before = append.first_cell;
  }
}

Json appends_to_tree(const Manifest& manifest) {
  Json list = Json::array();
  for (const AppendEntry& append : manifest.appends)
    list.push_back(Json{{"first_cell", append.first_cell},
                        {"n_sources", append.n_sources},
                        {"shuffled", append.is_shuffled},
                        {"selection", Json::parse(append.selection_json)}});
  return list;
}

std::string selection_from_tree(const JsonReader& read, const std::string& path) {
  if (!read.at("selection").is_object())
    throw_error(ErrorKind::kCorruptData, path, "'selection' must be an object");
  return read.at("selection").dump();
}

Json source_to_tree(const SourceEntry& source) {
  Json tree{{"path", source.path},
            {"layer", source.layer},
            {"fingerprint", checksum_to_text(source.fingerprint)},
            {"n_cells", source.n_cells}};
  if (source.whole_fingerprint) tree[kWholeKey] = checksum_to_text(*source.whole_fingerprint);
  return tree;
}

SourceEntry source_from_tree(const Json& tree, const std::string& path) {
  const JsonReader item(tree, path);
  SourceEntry source{.path = item.text("path"),
                     .layer = item.text("layer"),
                     .fingerprint = item.checksum("fingerprint"),
                     .n_cells = item.count("n_cells")};
  if (tree.contains(kWholeKey)) source.whole_fingerprint = item.checksum(kWholeKey);
  return source;
}

Json manifest_to_tree(const Manifest& manifest) {
  Json tree;
  tree["format"] = kFormatName;
  tree["version"] = kManifestVersion;
  tree["layout"] = layout_name(manifest.layout);
  tree["n_cells"] = manifest.n_cells;
  tree["n_genes"] = manifest.n_genes;
  tree["nnz"] = manifest.nnz;
  tree["n_shards"] = manifest.shards.size();
  tree["shard_size"] = manifest.shard_size;
  tree["dtype"] = std::string(dtype_name(manifest.value_dtype));
  tree["gene_order"] = manifest.gene_order == GeneOrder::kMean ? "mean" : "source";
  tree[kLibrarySizesKey] = manifest.keeps_library_sizes;
  tree["gene_fingerprint"] = checksum_to_text(manifest.gene_fingerprint);
  tree["processing"] = Json::parse(manifest.processing_json);
  tree["selection"] = Json::parse(manifest.selection_json);
  tree["plan_fingerprint"] = checksum_to_text(manifest.plan_fingerprint);
  tree["genes"] = file_to_json(manifest.genes);
  tree["annotations"] = manifest.annotations ? file_to_json(*manifest.annotations) : Json();
  tree["matrices"] = Json::array();
  for (const auto& matrix : manifest.matrices) tree["matrices"].push_back(matrix_to_json(matrix));
  tree["shards"] = Json::array();
  for (const auto& shard : manifest.shards) tree["shards"].push_back(shard_to_json(shard));
  tree["sources"] = Json::array();
  for (const auto& source : manifest.sources) tree["sources"].push_back(source_to_tree(source));
  if (!manifest.appends.empty()) tree[kAppendsKey] = appends_to_tree(manifest);
  tree["checksum"] = std::string(kNoChecksum);
  return tree;
}

Manifest manifest_from_tree(const Json& tree, const std::string& path) {
  const JsonReader read(tree, path);
  if (const auto format = read.text("format"); format != kFormatName)
    throw_error(ErrorKind::kCorruptData, path, "not a manifest of cellfeed: format is '{}'",
                format);
  if (const auto version = read.count("version"); version != kManifestVersion)
    throw_error(ErrorKind::kUnsupported, path,
                "version {} of the shard format, this cellfeed reads version {}: {}", version,
                kManifestVersion, remedy_for_version(version, kManifestVersion));
  Manifest manifest;
  manifest.layout = layout_from_name(read.text("layout"), path);
  manifest.n_cells = read.count("n_cells");
  manifest.n_genes = read.count("n_genes");
  manifest.nnz = read.count("nnz");
  manifest.shard_size = read.count("shard_size");
  manifest.value_dtype = read.dtype("dtype");
  const auto order = read.text("gene_order");
  if (order != "source" && order != "mean")
    throw_error(ErrorKind::kUnsupported, path, "unknown gene_order: '{}'", order);
  manifest.gene_order = order == "mean" ? GeneOrder::kMean : GeneOrder::kSource;
  manifest.keeps_library_sizes = read.flag(kLibrarySizesKey);
  manifest.gene_fingerprint = read.checksum("gene_fingerprint");
  manifest.processing_json = read.at("processing").dump();
  manifest.selection_json = selection_from_tree(read, path);
  manifest.plan_fingerprint = read.checksum("plan_fingerprint");
  manifest.genes = file_from_json(read.at("genes"), path);
  if (const Json& file = read.at("annotations"); !file.is_null())
    manifest.annotations = file_from_json(file, path);
  for (const auto& matrix : read.list("matrices"))
    manifest.matrices.push_back(matrix_from_json(matrix, path));
  for (const auto& shard : read.list("shards"))
    manifest.shards.push_back(shard_from_json(shard, path));
  for (const auto& source : read.list("sources"))
    manifest.sources.push_back(source_from_tree(source, path));
  if (tree.contains(kAppendsKey))
    for (const auto& append : read.list(kAppendsKey)) {
      const JsonReader item(append, path);
      manifest.appends.push_back({.first_cell = item.count("first_cell"),
                                  .n_sources = item.count("n_sources"),
                                  .is_shuffled = item.flag("shuffled"),
                                  .selection_json = selection_from_tree(item, path)});
    }
  if (read.count("n_shards") != static_cast<std::int64_t>(manifest.shards.size()))
    throw_error(ErrorKind::kCorruptData, path, "n_shards is {} and {} are listed",
                read.count("n_shards"), manifest.shards.size());
  return manifest;
}

std::string manifest_path(const std::string& dir) {
  return (std::filesystem::path(dir) / kManifestName).string();
}

}  // namespace

std::vector<const FileEntry*> common_files(const Manifest& manifest) {
  std::vector<const FileEntry*> files{&manifest.genes};
  if (manifest.annotations) files.push_back(&*manifest.annotations);
  return files;
}

std::vector<const FileEntry*> files_of(const ShardEntry& shard) {
  std::vector<const FileEntry*> files{&shard.matrix, &shard.obs, &shard.fixed_obs};
  for (const ShardMatrix& matrix : shard.matrices) files.push_back(&matrix.file);
  return files;
}

std::int64_t bytes_of(const ShardEntry& shard) {
  std::int64_t bytes = 0;
  for (const FileEntry* file : files_of(shard)) bytes += file->bytes;
  return bytes;
}

std::uint64_t gene_fingerprint(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) {
    text += name;
    text.push_back('\0');
  }
  return checksum_bytes(std::as_bytes(std::span(text)));
}

std::string manifest_to_json(const Manifest& manifest) {
  std::string text =
      manifest_to_tree(manifest).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  text.replace(checksum_position(text), kNoChecksum.size(),
               checksum_to_text(checksum_bytes(std::as_bytes(std::span(text)))));
  return text;
}

Manifest manifest_from_json(const std::string& text, const std::string& dir) {
  const std::string path = manifest_path(dir);
  check_own_checksum(text, path);
  const Manifest manifest = manifest_from_tree(parse_json(text, path), path);
  check_counts(manifest, path);
  check_appends(manifest, path);
  return manifest;
}

bool keeps_library_sizes(const Manifest& manifest, const ShardEntry& shard) {
  return manifest.keeps_library_sizes || shard.has_own_library_sizes;
}

std::int64_t n_cells_of_append(const Manifest& manifest, std::size_t append) {
  const bool is_last = append + 1 == manifest.appends.size();
  return (is_last ? manifest.n_cells : manifest.appends[append + 1].first_cell) -
         manifest.appends[append].first_cell;
}

Manifest without_last_append(Manifest manifest) {
  const AppendEntry last = manifest.appends.back();
  manifest.appends.pop_back();
  std::erase_if(manifest.shards,
                [&](const ShardEntry& shard) { return shard.first_cell >= last.first_cell; });
  manifest.sources.resize(manifest.sources.size() - static_cast<std::size_t>(last.n_sources));
  sum_up(manifest);
  return manifest;
}

void sum_up(Manifest& manifest) {
  manifest.n_cells = 0;
  manifest.nnz = 0;
  for (MatrixEntry& matrix : manifest.matrices) matrix.nnz = 0;
  for (const ShardEntry& shard : manifest.shards) {
    // Others come from a journal that is not ours; manifest_from_json says so.
    for (std::size_t m = 0; m < std::min(manifest.matrices.size(), shard.matrices.size()); ++m)
      manifest.matrices[m].nnz += shard.matrices[m].nnz;
    manifest.n_cells += shard.n_cells;
    manifest.nnz += shard.nnz;
  }
}

void write_manifest(const io::Directory& dir, const Manifest& manifest) {
  const std::string text = manifest_to_json(manifest);
  if (std::ssize(text) > kMaxManifestBytes)
    throw_invalid(
        "{} shards of {} sources make a manifest of {} bytes, and {} is the most: convert "
        "with a larger shard size",
        manifest.shards.size(), manifest.sources.size(), text.size(), kMaxManifestBytes);
  io::AtomicFile file(io::FileTarget(dir, kManifestName), io::OnExisting::kReplace);
  file.append(std::as_bytes(std::span<const char>(text)));
  file.commit();
}

Manifest read_manifest(const std::string& dir) {
  try {
    return manifest_from_json(io::read_small_file(manifest_path(dir), kMaxManifestBytes), dir);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
  }
  if (!io::exists(dir)) throw_error(ErrorKind::kNotFound, dir, "there is no such directory");
  if (shard_directory_state(dir) == DirectoryState::kUnfinished)
    throw_error(ErrorKind::kNotFound, dir,
                "an unfinished conversion, without {}: continue it with {}", kManifestName,
                argument("resume", "true"));
  throw_error(ErrorKind::kNotFound, dir, "not a shard directory: there is no {}", kManifestName);
}

}  // namespace cellfeed::format::shard
