package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// ConfigMaps generates config maps. Each one holds the settings of an application, and a checkpoint
// that its process keeps writing.
type ConfigMaps struct {
	n    int
	apps []template
	sets []labels.Set
}

// NewConfigMaps returns n config maps.
func NewConfigMaps(n int) *ConfigMaps {
	c := &ConfigMaps{n: n}
	for a := range Apps {
		app := AppAt(a)
		c.apps = append(c.apps, newTemplate(configMap(a, app)))
		c.sets = append(c.sets, labels.Set{"app": app.Name})
	}
	return c
}

// Len returns the number of config maps.
func (c *ConfigMaps) Len() int { return c.n }

// Identity returns the namespace, name and labels of config map i.
func (c *ConfigMaps) Identity(i int) (namespace, name string, set labels.Set) {
	app := AppAt(i)
	return app.Namespace, string(suffix([]byte(app.Name+"-config-"), i)), c.sets[i%Apps]
}

// Append appends the JSON of config map i after the given number of updates.
func (c *ConfigMaps) Append(b []byte, i, updates int, resourceVersion int64) []byte {
	what := chance(uint64(i), propOfApp+1)
	created := began.Add(time.Duration(chance(what, propCreated)%(30*24*3600)) * time.Second)
	offset := chance(what, propDelay) % 1_000_000
	for u := range min(updates, 64) { // each update commits some more records
		offset += chance(what+uint64(u), propStage) % 5000
	}
	return c.apps[i%Apps].append(b, func(b []byte, blank blank) []byte {
		switch blank {
		case blankSuffix:
			return suffix(b, i)
		case blankUID:
			return uid(b, what)
		case blankVersion:
			return strconv.AppendInt(b, resourceVersion, 10)
		case blankSent:
			return sent(b)
		case blankCreated:
			return timestamp(b, created)
		case blankTransition:
			return timestamp(b,
				created.Add(time.Duration(updates)*time.Minute+time.Duration(what%50)*time.Second))
		case blankCount:
			return strconv.AppendUint(b, offset+uint64(updates), 10)
		case blankToken:
			return digest(b, what+uint64(updates)<<32, propContainerID)
		}
		panic("fleet: a config map has no such blank")
	})
}

func configMap(a int, app App) *corev1.ConfigMap {
	var settings strings.Builder
	fmt.Fprintf(&settings,
		"# %s, managed by the platform team\nserver:\n  listen: 0.0.0.0:%d\n  shutdown: %ds\n",
		app.Name, 8000+of(a, 50)%90, 5+of(a, 51)%30)
	for s := range 6 + of(a, 52)%8 {
		at := int(of(a, 60+s) % uint64(len(variables)))
		fmt.Fprintf(&settings, "%s:\n  value: %q\n  changed: %s\n", strings.ToLower(variables[at]),
			values[at], timestamp(nil, began.Add(time.Duration(of(a, 80+s)%1_000_000)*time.Second)))
	}
	created, changed := timeMark(blankCreated), timeMark(blankTransition)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: app.Name + "-config-" + mark(blankSuffix), Namespace: app.Namespace,
			UID:             types.UID(mark(blankUID)),
			ResourceVersion: mark(blankVersion), CreationTimestamp: created,
			Labels:      map[string]string{"app": app.Name},
			Annotations: map[string]string{SentAnnotation: mark(blankSent)},
			ManagedFields: []metav1.ManagedFieldsEntry{
				entry("argocd-controller", "Apply", "", created, fields{
					"f:metadata": {"f:labels": leaves("app")}, "f:data": leaves("settings.yaml"),
				}),
				entry(app.Name, "Update", "", changed, fields{"f:data": leaves("checkpoint.json")}),
			},
		},
		Data: map[string]string{
			"settings.yaml": settings.String(),
			"checkpoint.json": fmt.Sprintf(`{"offset":%d,"committed":%q,"digest":"%s"}`, countMark,
				changed.UTC().Format(time.RFC3339), mark(blankToken)),
		},
	}
}
