// Files that Open MPI leaves on this host if its mpirun is killed.

#pragma once

namespace stagecraft {

/// Removes the files of the session of the mpirun that had this number, which has ended: its folder
/// (/tmp/ompi.HOST.USER/pid.NUMBER), and its ranks' shared memory (/dev/shm/vader_segment.…), of
/// which each rank has 4 MiB that would be taken until the machine starts again. Nothing where
/// mpirun has removed them itself, as it does unless it is killed. Throws nothing.
void remove_files_of_mpirun(int pid);

}  // namespace stagecraft
