package schemas

import (
	"fmt"

	"github.com/spf13/cobra"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/schema"
)

// Check checks a configuration against the schemas that are built in, those of the
// CustomResourceDefinitions beside the manifests, and the given ones, which may be nil. A resource
// among the given ones is as they say, whatever is built in. known are mistakes that are reported
// already: Check says nothing more at their places. unknown are the resources that no schema
// describes, so that nothing about their fields is checked, sorted.
func Check(
	cfg *config.Config, given *schema.Catalog, known config.Mistakes,
) (mistakes config.Mistakes, unknown []string) {
	builtIn, _ := BuiltIn()
	if given == nil {
		given = schema.NewCatalog(builtIn)
	}
	beside := schema.NewCatalog(builtIn)
	for _, d := range cfg.Definitions {
		if err := beside.AddDefinition(d.JSON); err != nil {
			mistakes = append(mistakes, d.At.Mistake(0, err.Error()))
		}
	}
	taken := make(map[config.Position]bool)
	for _, m := range known {
		taken[m.Position] = true
	}
	all := layers{given, beside, builtIn}
	for _, misfit := range plan.Misfits(cfg, all) {
		if !taken[misfit.Position] {
			mistakes = append(mistakes, misfit.Mistake)
		}
	}
	return mistakes, plan.Unknown(cfg, all)
}

// layers are catalogs of which the first that has a resource counts. The last one is built in.
type layers []*schema.Catalog

func (l layers) Of(resource k8s.GroupVersionResource) (schema.Type, bool) {
	for _, catalog := range l {
		if t, ok := catalog.Of(resource); ok {
			return t, true
		}
	}
	return schema.Type{}, false
}

// HasStatus asks the catalog that counts.
func (l layers) HasStatus(resource k8s.GroupVersionResource) (has, known bool) {
	for _, catalog := range l {
		if _, ok := catalog.Of(resource); ok {
			return catalog.HasStatus(resource)
		}
	}
	return false, false
}

// IsNamespaced asks the catalog that counts.
func (l layers) IsNamespaced(resource k8s.GroupVersionResource) (is, known bool) {
	for _, catalog := range l {
		if _, ok := catalog.Of(resource); ok {
			return catalog.IsNamespaced(resource)
		}
	}
	return false, false
}

// Resources returns those of a group and version of Kubernetes' own.
func (l layers) Resources(of k8s.GroupVersion) (all []string) {
	if len(l[len(l)-1].Resources(of)) == 0 {
		return nil
	}
	for _, catalog := range l {
		all = append(all, catalog.Resources(of)...)
	}
	return all
}

// Hint returns what a command says once below mistakes, some of which Check may have found.
func Hint() string {
	_, versions := BuiltIn()
	return fmt.Sprintf(`fields are checked against Kubernetes %s, CustomResourceDefinitions given by `+
		`-f, and --schemas; for a field that they lack write get(x, "field")`, versions)
}

// Flag adds the flag --schemas, whose paths Read takes.
func Flag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVar(paths, "schemas", nil,
		"`PATH` of schemas, or of a folder tree; repeatable")
	if err := cmd.MarkFlagFilename("schemas", "yaml", "yml", "json"); err != nil {
		panic(err) // the flag was just defined
	}
}
