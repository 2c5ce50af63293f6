// Fill Value messages: what elements that were never written read as. HDF5 File Format
// Specification 4.0, IV.A.2.e (old) and IV.A.2.f.
#pragma once

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {

// One element as it is stored; no bytes mean zeros. message: its bytes. Throws kCorruptData.
Bytes read_old_fill_value_message(Cursor message);
Bytes read_fill_value_message(Cursor message);

}  // namespace cellfeed::hdf5
