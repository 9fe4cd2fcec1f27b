package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
)

// hanging are the example handlers with another handle: a harness.Hanging in their languages.
var hanging = map[string]struct{ file, from, handle string }{
	"python": {"diary.py", "    def handle(self, event):\n", `    def handle(self, event):
        version = json.loads(event.object)["metadata"]["resourceVersion"]
        while event.name.endswith("hangs") and not os.path.exists("DIR/go"):
            threading.Event().wait(0.02)
        os.write(self.file, f"{event.name} {version}\n".encode())
        return []

    def was(self, event):
`},
	"node": {"diary.js", "async function handle(event, signal) {\n", `async function handle(event, signal) {
  const version = parse(event.object.toString()).metadata.resourceVersion
  while (event.name.endsWith('hangs') && !require('node:fs').existsSync('DIR/go')) {
    signal.throwIfAborted()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await file.appendFile(event.name + ' ' + version + '\n')
  return []
}

async function was(event, signal) {
`},
}

// Objects for which an example handler hangs do not keep the others waiting. The one in Python does
// not notice that informd gives up on an event.
func TestHangingObjectsAreAloneInEachLanguage(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		name := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		change := hanging[name]
		path := filepath.Join(dir, change.file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), change.from) != 1 {
			t.Fatalf("%s has another handle", change.file)
		}
		changed := strings.Replace(string(text), change.from, strings.ReplaceAll(change.handle, "DIR", dir), 1)
		if err := os.WriteFile(path, []byte(changed), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, hung := range []int{10, 100} {
			for _, name := range []string{"ledger", "go"} {
				_ = os.Remove(filepath.Join(dir, name)) // not there at first
			}
			harness.WantAlone(t, dir, `command: ["`+strings.Join(command, `", "`)+`"], config: {file: `+filepath.Join(dir, "ledger")+`}`, hung)
		}
	})
}
