package steps

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const childDir = "INFORMD_STEPS_DIR"

// TestChild is a process of other tests: it begins a step, and waits to be killed.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("another test runs it")
	}
	m := open(t, dir)
	done, under := m.Slot(1, "v1/pods"), m.Slot(2, "apps/v1/deployments")
	done.Begin(Change, "shop/done", "6")
	done.End()
	under.Begin(Change, "shop/"+strings.Repeat("x", 253), "7")
	under.End()
	under.Begin(Turn, "shop/web", "8")
	self, _ := os.FindProcess(os.Getpid())
	_ = self.Kill()
	select {}
}

func open(t testing.TB, dir string) *Marks {
	t.Helper()
	m, err := Open(dir, time.Now())
	if err != nil {
		lacks(t, err.Error()) // there is no shared memory here
	}
	t.Cleanup(func() { m.close(true) })
	return m
}

// lacks ends a test that needs shared memory. CI skips none.
func lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("INFORMD_SKIP_NOTHING") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// abandon is what the end of the process does to marks that are not closed.
func abandon(*Marks) {}

func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for n := range MaxDeaths {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		if out, err := cmd.CombinedOutput(); err == nil {
			lacks(t, string(out)) // it could not open the marks
		}
		if deadly := Deadly(time.Now(), nil); len(deadly) != 0 {
			t.Fatalf("after %d deaths: %v", n, deadly)
		}
	}
	m := open(t, dir)
	all := m.Suspects()
	if len(all) != 1 {
		t.Fatalf("the suspects are %+v", all)
	}
	s := all[0]
	if s.Object != "shop/web" || s.Version != "8" || s.Resource != "apps/v1/deployments" || s.Informer != 2 ||
		s.Kind != Turn || s.Deaths != MaxDeaths {
		t.Errorf("the suspect is %+v", s)
	}
	if deadly := Deadly(time.Now(), all); len(deadly) != 1 {
		t.Errorf("deadly is %v", deadly)
	}
	if deadly := Deadly(time.Now().Add(Forgotten+time.Minute), all); len(deadly) != 0 {
		t.Errorf("deadly is %v for ever", deadly)
	}
	m.Passed(2, "shop/web", Change) // another kind says nothing
	if len(m.Suspects()) != 1 {
		t.Error("a step of another kind has cleared it")
	}
	m.Passed(2, "shop/web", Turn)
	abandon(m)
	if all := open(t, dir).Suspects(); len(all) != 0 {
		t.Errorf("a completed step has left %v", all)
	}
}

// Deaths of one version count together, as long as no step of the object was completed.
func TestDeaths(t *testing.T) {
	dir := t.TempDir()
	die := func(object, version string) []Suspect {
		m := open(t, dir)
		m.Slot(1, "v1/pods").Begin(Change, object, version)
		abandon(m)
		return open(t, dir).Suspects()
	}
	die("a", "1")
	die("b", "1") // which is innocent, perhaps
	if all := die("a", "1"); len(all) != 2 || all[0].Object != "a" || all[0].Deaths != 2 {
		t.Errorf("the suspects are %+v", all)
	}
	if all := die("a", "2"); len(all) != 2 || all[0].Deaths != 1 || all[1].Deaths != 1 {
		t.Errorf("another version counts: %+v", all)
	}
}

func TestDeathsOfReplicas(t *testing.T) {
	now := time.Now()
	s := Suspect{Informer: 1, Resource: "v1/pods", Object: "a", Version: "1", Kind: Change, Deaths: 1, At: now}
	other, twice := s, s
	other.Version, twice.Kind, twice.Deaths = "2", Turn, 2
	for _, test := range []struct {
		of   []Suspect
		want int
	}{
		{nil, 0},
		{[]Suspect{s, s}, 0},
		{[]Suspect{s, s, other}, 0},
		{[]Suspect{s, s, s}, 1},
		{[]Suspect{s, other, twice}, 1},
	} {
		if got := Deadly(now, test.of); len(got) != test.want {
			t.Errorf("%+v: deadly is %+v", test.of, got)
		}
	}
}

func TestFullSlots(t *testing.T) {
	m := open(t, t.TempDir())
	var slots []*Slot
	for i := range maxSlots {
		slots = append(slots, m.Slot(uint64(i), "v1/pods"))
		if slots[i] == nil {
			t.Fatalf("slot %d is not free", i)
		}
	}
	none := m.Slot(99, "v1/pods")
	if none != nil {
		t.Fatal("there are too many slots")
	}
	none.Begin(Change, "a", "1")
	none.End()
	none.Release()
	slots[7].Release()
	if again := m.Slot(100, "v1/pods"); again == nil || again.number != 7 {
		t.Errorf("the slot that is free again is %+v", again)
	}
	for i, s := range slots {
		s.Begin(Change, fmt.Sprint("pod-", i), "1")
	}
	m.accuse(time.Now())
	if n := len(m.Suspects()); n != maxSuspects {
		t.Errorf("%d suspects are kept", n)
	}
}

func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	if m.Slot(1, strings.Repeat("x", maxResource+1)) != nil {
		t.Error("a long resource has a slot")
	}
	s := m.Slot(1, strings.Repeat("r", maxResource))
	s.Begin(Change, strings.Repeat("x", maxObject+1), "1")
	s.Begin(Change, "a", strings.Repeat("1", maxVersion+1))
	m.accuse(time.Now())
	if all := m.Suspects(); len(all) != 0 {
		t.Errorf("the suspects are %+v", all)
	}
	name, version := strings.Repeat("x", maxObject), strings.Repeat("1", maxVersion)
	s.Begin(Change, name, version)
	m.accuse(time.Now())
	if all := m.Suspects(); len(all) != 1 || all[0].Object != name || all[0].Version != version || len(all[0].Resource) != maxResource {
		t.Errorf("the suspects are %+v", all)
	}
}

// A file that is damaged, or of another version, is made empty.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"short":   func(path string) error { return os.Truncate(path, 100) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"long":    func(path string) error { return os.Truncate(path, size+1) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("\xff", size)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := open(t, dir)
			m.Slot(1, "v1/pods").Begin(Change, "a", "1")
			path, err := pathOf(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			if all := open(t, dir).Suspects(); len(all) != 0 {
				t.Errorf("the suspects are %+v", all)
			}
		})
	}
	t.Run("records", func(t *testing.T) {
		m := open(t, t.TempDir())
		for i := range m.memory[headSize:] {
			m.memory[headSize+i] = byte(i * 31)
		}
		m.accuse(time.Now())
		m.Slot(1, "v1/pods").Begin(Change, "a", "1")
		m.accuse(time.Now())
		for _, s := range m.Suspects() {
			if !s.fits() || s.Deaths < 1 {
				t.Errorf("the suspect %+v", s)
			}
		}
	})
}

// Close removes the file if it has nothing of use. Open removes those of directories that are gone.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path, err := pathOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	has := func(want bool) {
		t.Helper()
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("the file is there: %v", err == nil)
		}
	}
	m := open(t, dir)
	has(true)
	m.Close()
	m.Close()
	has(false)
	m = open(t, dir)
	m.Slot(1, "v1/pods").Begin(Change, "a", "1")
	m = open(t, dir)
	m.Close()
	has(true) // it has a suspect
	if err := os.Rename(dir, filepath.Join(t.TempDir(), "elsewhere")); err != nil {
		t.Fatal(err)
	}
	open(t, t.TempDir())
	has(false)
	if err := os.Mkdir(dir, 0o700); err != nil { // for the test's own cleanup
		t.Fatal(err)
	}
	(*Marks)(nil).Close()
	if all := (*Marks)(nil).Suspects(); all != nil {
		t.Error(all)
	}
}

func BenchmarkStep(b *testing.B) {
	m := open(b, b.TempDir())
	s := m.Slot(1, "v1/pods")
	for b.Loop() {
		s.Begin(Change, "a-namespace/a-pod-with-a-usual-name-7d9c", "123456789")
		s.End()
	}
}
