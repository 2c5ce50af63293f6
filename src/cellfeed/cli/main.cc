// The cellfeed program.
#include "cellfeed/cli/program.h"

int main(int argc, char** argv) { return cellfeed::cli::run_program(argc, argv); }
