// The genes that a conversion keeps: those of a vocabulary file, or those that most cells have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::convert {

// Names in the order of their numbers, from what Python's GeneVocab.save wrote: a JSON object of
// names and numbers from 4, or a list of names (a repeated one keeps its first place). Throws
// kNotFound, kIo, kCorruptData naming the file.
std::vector<std::string> read_gene_vocabulary(const std::string& path);

// The n genes that most cells of the inputs have (values other than 0), in the order of the data;
// ties go to the earlier gene. Reads every cell once. Temporary files lie beside output_dir. Of the
// options, input, output_dir, threads, memory_budget, progress and stop count.
std::vector<std::string> most_detected_genes(const ConvertOptions& options, std::int64_t n);

}  // namespace cellfeed::convert
