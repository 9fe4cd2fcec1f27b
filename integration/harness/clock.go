package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SetClock sets the wall clock of one process so far ahead, or behind if that is negative, in whole
// seconds. The monotonic clock, other processes and its own children keep theirs.
//
// A process asks for the time in the vDSO, a library of the kernel in its memory. SetClock puts a
// function in the place of the vDSO's clock_gettime. So the test needs no other build of informd.
// It stops the process for some milliseconds. It does nothing if the process has ended.
func SetClock(t testing.TB, pid int, ahead time.Duration) {
	t.Helper()
	if !knowsVDSO {
		t.Skip("only the vDSO of linux/amd64 is known")
	}
	switch err := setClock(pid, ahead); {
	case errors.Is(err, os.ErrPermission):
		Lacks(t, fmt.Sprintf("needs root, to set the clock of a process: %v", err))
	case err != nil && !HasEnded(pid):
		t.Fatalf("set the clock of process %d: %v", pid, err)
	}
}

const knowsVDSO = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"

// CanSetClock reports whether SetClock works here. It tries that with a process of its own.
func CanSetClock() bool {
	cmd := exec.Command("sleep", "60")
	if !knowsVDSO || cmd.Start() != nil {
		return false
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	return setClock(cmd.Process.Pid, 0) == nil
}

// This is what the vDSO gets: how many seconds the clock is ahead, and a function.
//
//	mov  $228, %eax      # clock_gettime(edi, rsi), as a system call
//	syscall
//	test %edi, %edi      # CLOCK_REALTIME is 0
//	jne  1f
//	mov  ahead(%rip), %rcx
//	add  %rcx, (%rsi)    # the seconds
//	1: ret
const (
	clockFunction = "\xb8\xe4\x00\x00\x00\x0f\x05\x85\xff\x75\x0a" +
		"\x48\x8b\x0d\xe6\xff\xff\xff\x48\x01\x0e\xc3"
	sizeOfAhead = 8
)

// vdso is the vDSO of a process.
type vdso struct {
	pid     int
	memory  *os.File // of the process
	base    int64
	content []byte
	entry   int64 // of clock_gettime, in content
}

func setClock(pid int, ahead time.Duration) error {
	v, err := openVDSO(pid)
	if err != nil {
		return err
	}
	defer v.memory.Close()
	// The function comes behind the vDSO's content, which leaves a part of its last page free.
	free := int64(len(bytes.TrimRight(v.content, "\x00"))+15) &^ 15
	code := bytes.LastIndex(v.content, []byte(clockFunction))
	if code >= 0 {
		free = int64(code) - sizeOfAhead
	}
	seconds := binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second))
	if _, err := v.memory.WriteAt(seconds, v.base+free); err != nil || code >= 0 {
		return err
	}
	function := free + sizeOfAhead
	if function+int64(len(clockFunction)) > int64(len(v.content)) {
		return errors.New("the vDSO has no room")
	}
	if _, err := v.memory.WriteAt([]byte(clockFunction), v.base+function); err != nil {
		return err
	}
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(function-v.entry-5))
	return v.replace(v.entry, jump)
}

func openVDSO(pid int) (*vdso, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		var begin, end int64
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
			return nil, err
		}
		v := &vdso{pid: pid, base: begin, content: make([]byte, end-begin)}
		if v.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
			return nil, err
		}
		if err := v.read(); err != nil {
			_ = v.memory.Close()
			return nil, err
		}
		return v, nil
	}
	return nil, errors.New("it has no vDSO")
}

func (v *vdso) read() error {
	if _, err := v.memory.ReadAt(v.content, v.base); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(v.content))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			v.entry = int64(s.Value)
			return nil
		}
	}
	return errors.New("the vDSO has no __vdso_clock_gettime")
}

// replace replaces instructions while the process is stopped and no thread is among them. A process
// that was stopped before stays so.
func (v *vdso) replace(at int64, by []byte) error {
	wasStopped := len(v.counters()) > 0
	for range 100 {
		if !wasStopped {
			if err := syscall.Kill(v.pid, syscall.SIGSTOP); err != nil {
				return err
			}
		}
		counters := v.counters()
		for began := time.Now(); len(counters) == 0; counters = v.counters() {
			if time.Since(began) > 10*time.Second {
				return errors.New("it does not stop")
			}
			time.Sleep(time.Millisecond)
		}
		isFree := !slices.ContainsFunc(counters, func(counter int64) bool {
			return v.base+at <= counter && counter < v.base+at+int64(len(by))
		})
		var err error
		if isFree {
			_, err = v.memory.WriteAt(by, v.base+at)
		}
		if !wasStopped {
			err = errors.Join(err, syscall.Kill(v.pid, syscall.SIGCONT))
		}
		if isFree || err != nil {
			return err
		}
	}
	return errors.New("it is always about to ask for the time")
}

// counters returns where the threads of a stopped process go on. It returns nothing if one of them
// runs or may do so. A thread that waits for a disk stops when it goes on.
func (v *vdso) counters() (all []int64) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", v.pid))
	isStopped := false
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(thread, "stat"))
		if err != nil {
			return nil
		}
		state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
		call, err := os.ReadFile(filepath.Join(thread, "syscall")) // its last field is the counter
		fields := strings.Fields(string(call))
		if err != nil || state[0] != 'T' && state[0] != 'D' || len(fields) < 3 {
			return nil
		}
		counter, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return nil
		}
		isStopped = isStopped || state[0] == 'T'
		all = append(all, int64(counter))
	}
	if !isStopped {
		return nil
	}
	return all
}
