package schemas

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// Every example fits the schemas: what is right is never called wrong.
func TestExamplesFit(t *testing.T) {
	t.Parallel()
	catalog, versions := BuiltIn()
	t.Logf("Kubernetes %s: %d resources", versions, catalog.Len())
	root := filepath.Join("..", "..", "..")
	n := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		cfg, _ := config.Parse([]config.File{{Path: path, Data: data}})
		n += len(cfg.Rules)
		for _, misfit := range plan.Misfits(cfg, layers{catalog}) {
			t.Errorf("%v", misfit.Mistake)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rules", n)
}
