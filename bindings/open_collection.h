// Collections made: of files, of what is in memory, of other collections.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "cellfeed/collection/collection.h"
#include "paths.h"

namespace cellfeed::bindings {

// Of Parquet tables, as OpenOptions::table: genes_column, values_column, var, obs_columns.
using TableColumnNames = std::tuple<std::string, std::string, FilePath, std::vector<std::string>>;

using ValueArray =
    nanobind::ndarray<nanobind::ro, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// A collection of one store that holds copies of the arrays: what is in memory, served as files
// are. processing: as format::read_processing takes it.
std::shared_ptr<const collection::Collection> collection_from_memory(
    const Int64Array& indptr, const Int32Array& indices, const ValueArray& values,
    const std::string& dtype, std::int64_t n_genes, nanobind::handle obs, nanobind::handle var,
    std::string name, bool make_unique, std::optional<std::vector<std::string>> genes,
    std::vector<std::string> var_keys, const std::string& processing, bool has_log1p_mark,
    bool has_log1p_base);

// The stores of several collections as one, joined anew.
std::shared_ptr<const collection::Collection> join_collections(
    const std::vector<std::shared_ptr<const collection::Collection>>& parts,
    const std::string& join, std::optional<std::vector<std::string>> genes, bool make_unique,
    std::vector<std::string> var_keys, std::int64_t cache_bytes);

// layers: of each file the first that it has. keeps_packed: what is read is kept in cache_dir as
// packed records. announce: f(text), before rows are written to it. is_to_write: all cells are
// read in order, once, and rows are made as convert::late_rows() says.
std::shared_ptr<const collection::Collection> open_collection(
    std::vector<FilePath> paths, const std::string& join,
    std::optional<std::vector<std::string>> genes, bool make_unique,
    std::vector<std::string> layers, std::int64_t cache_bytes, const std::string& access,
    const std::string& verify, const std::optional<FilePath>& cache_dir,
    const nanobind::object& announce, const nanobind::object& progress, const std::string& genome,
    const std::string& feature_type, const std::string& modality, std::optional<bool> transpose,
    std::vector<std::string> var_keys, bool keeps_packed, const TableColumnNames& table,
    bool is_to_write);

}  // namespace cellfeed::bindings
