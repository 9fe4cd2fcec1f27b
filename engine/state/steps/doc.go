// Package steps notes which steps of objects are under way, so that a process knows in which of them
// the one before it died. A change can make informd itself crash, in a way that nothing contains: a
// fatal error of Go's runtime, for example, or a lack of memory. Without a note, informd would start
// at the same change and crash again, and so would each of its replicas.
//
// [Marks] is that note: shared memory that outlives the process. A step costs a few writes to memory
// and no system call. When the next process opens it, each step that was under way becomes a
// [Suspect]: an object at one version, and how many times informd has died in its step. Deaths are
// not told apart, because a process that is killed for want of memory looks like one that somebody
// has killed. An innocent change is a suspect now and then, too: but informd then completes its step
// and calls [Marks.Passed], which clears it. Only a change that informd never gets past is counted
// [MaxDeaths] times. [Deadly] returns those.
//
// The memory is a file in /dev/shm, on a file system that has no disk. A file in the state directory
// would not do: a disk that hangs holds up whoever writes to such memory, and one that is full or
// broken kills it. Where there is no such place, nothing is noted. Notes do not survive a restart of
// the machine.
package steps
