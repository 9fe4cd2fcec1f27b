package fleet

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Deployment is the state of a deployment, computed without its JSON.
type Deployment struct {
	App
	Replicas, Ready int
}

// DeploymentAt returns the i-th deployment after the given number of updates. Updates take a
// replica away and give it back in turn.
func DeploymentAt(i, updates int) Deployment {
	d := Deployment{App: AppAt(i), Replicas: replicas}
	d.Ready = d.Replicas - updates%2
	return d
}

const replicas = 5

// Deployments generates deployments: one of each application, in one region after the other.
type Deployments struct {
	n    int
	apps []deploymentTemplates
}

type deploymentTemplates struct {
	ready, unready template
	labels         labels.Set
}

// NewDeployments returns n deployments.
func NewDeployments(n int) *Deployments {
	d := &Deployments{n: n}
	for a := range Apps {
		m := newPodMaker(a)
		d.apps = append(d.apps, deploymentTemplates{
			newTemplate(m.deployment(true)), newTemplate(m.deployment(false)), m.deploymentLabels(),
		})
	}
	return d
}

// Len returns the number of deployments.
func (d *Deployments) Len() int { return d.n }

// Identity returns the namespace, name and labels of deployment i.
func (d *Deployments) Identity(i int) (namespace, name string, set labels.Set) {
	app := AppAt(i)
	return app.Namespace, string(suffix(append([]byte(app.Name), '-'), i)), d.apps[i%Apps].labels
}

// Append appends the JSON of deployment i after the given number of updates.
func (d *Deployments) Append(b []byte, i, updates int, resourceVersion int64) []byte {
	is, what := DeploymentAt(i, updates), chance(uint64(i), propOfApp)
	created := began.Add(time.Duration(chance(what, propCreated)%(30*24*3600)) * time.Second)
	changed := created.Add(time.Duration(updates)*23*time.Minute +
		time.Duration(chance(what+uint64(updates), propDelay)%1200)*time.Second)
	t := d.apps[i%Apps].ready
	if is.Ready < is.Replicas {
		t = d.apps[i%Apps].unready
	}
	return t.append(b, func(b []byte, blank blank) []byte {
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
			return timestamp(b, changed)
		}
		panic("fleet: a deployment has no such blank")
	})
}

func (m *podMaker) deploymentLabels() map[string]string {
	return map[string]string{"app": m.Name, "tier": m.Tier}
}

func (m *podMaker) deployment(ready bool) *appsv1.Deployment {
	set, n, history, deadline := m.deploymentLabels(), int32(replicas), int32(10), int32(600)
	pods := m.template
	pods.NodeName, pods.Priority, pods.Tolerations = "", nil, nil
	created, changed := timeMark(blankCreated), timeMark(blankTransition)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name + "-" + mark(blankSuffix), Namespace: m.Namespace,
			UID: types.UID(mark(blankUID)), ResourceVersion: mark(blankVersion),
			Generation: int64(1 + of(m.a, 40)%30), CreationTimestamp: created,
			Labels: set, Annotations: map[string]string{
				"deployment.kubernetes.io/revision": fmt.Sprint(1 + of(m.a, 40)%30),
				SentAnnotation:                      mark(blankSent),
			},
			ManagedFields: []metav1.ManagedFieldsEntry{
				entry("argocd-controller", "Apply", "", created, fields{
					"f:metadata": {"f:labels": leaves("app", "tier")},
					"f:spec": leaves("replicas", "selector").with(fields{
						"f:template": {
							"f:metadata": {"f:labels": leaves("app", "tier")},
							"f:spec": {
								"f:containers":         m.managedContainers(),
								"f:serviceAccountName": leaf,
							},
						},
					}),
				}),
				entry("kube-controller-manager", "Update", "status", changed, fields{
					"f:metadata": {
						"f:annotations": leaves("deployment.kubernetes.io/revision").
							with(fields{".": leaf}),
					},
					"f:status": leaves("availableReplicas", "observedGeneration", "readyReplicas",
						"replicas", "updatedReplicas").
						with(fields{"f:conditions": conditionFields("Available", "Progressing")}),
				}),
			},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: set},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: set}, Spec: pods,
			},
			Strategy:             appsv1.DeploymentStrategy{Type: "RollingUpdate"},
			RevisionHistoryLimit: &history, ProgressDeadlineSeconds: &deadline,
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: int64(1 + of(m.a, 40)%30), Replicas: n,
			UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{{
				Type: "Available", Status: "True", LastUpdateTime: changed, LastTransitionTime: created,
				Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability.",
			}, {
				Type: "Progressing", Status: "True", LastUpdateTime: changed, LastTransitionTime: created,
				Reason:  "NewReplicaSetAvailable",
				Message: fmt.Sprintf("ReplicaSet %q has successfully progressed.", m.Name+"-"+m.hash),
			}},
		},
	}
	if !ready {
		d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas = n-1, n-1, 1
	}
	return d
}
