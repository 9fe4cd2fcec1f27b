package fleet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podMaker makes pods of one application, with marks that newTemplate turns into blanks.
type podMaker struct {
	App
	a        int
	hash     string // of the pod template
	prefix   string // of names
	labels   map[string]string
	owner    metav1.OwnerReference
	images   []string // of each container; their digests
	digests  []string
	names    []string
	template corev1.PodSpec
}

func newPodMaker(a int) *podMaker {
	m := &podMaker{App: AppAt(a), a: a}
	m.hash = string(suffix(suffix(nil, a*31), a*17+5)[:9])
	set := m.Name + "-" + m.hash
	m.prefix = set + "-"
	m.labels = map[string]string{"app": m.Name, "pod-template-hash": m.hash, "tier": m.Tier}
	if of(a, 1)%6 == 0 {
		m.labels["app.kubernetes.io/version"] = version(a)
	}
	yes := true
	m.owner = metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(uid(nil, of(a, 2))),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}

	m.addContainers()
	m.addRest()
	return m
}

func version(a int) string {
	v := of(a, 3)
	return fmt.Sprintf("v%d.%d.%d", 1+v%4, v>>8%60, v>>16%12)
}

var (
	variables = []string{
		"LOG_LEVEL", "HTTP_ADDR", "DATABASE_URL", "CACHE_TTL", "FEATURE_FLAGS", "REGION",
		"QUEUE_NAME", "TRACE_RATIO", "MAX_CONNECTIONS", "UPSTREAM_TIMEOUT", "GOMAXPROCS",
		"OTEL_EXPORTER_OTLP_ENDPOINT",
	}
	values = []string{
		"info", ":8080", "postgres://db.internal:5432/main?sslmode=verify-full", "300s",
		"new-basket,fast-lane", "eu-central-1", "events.v2", "0.01", "64", "2500ms", "2",
		"http://otel-collector.observability:4317",
	}
)

// addContainers adds the application's container, and to some a second and a third one.
func (m *podMaker) addContainers() {
	m.add(corev1.Container{
		Name:  m.Name[strings.IndexByte(m.Name, '-')+1:],
		Image: "r.example.com/" + m.Name + ":" + version(m.a),
		Env:   m.env(max(0, int(of(m.a, 5)%12)-7)),
	})
	if of(m.a, 6)%5 == 0 {
		m.template.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(fmt.Sprint(50*(1+of(m.a, 6)%8), "m")),
			corev1.ResourceMemory: resource.MustParse(fmt.Sprint(64<<(of(m.a, 7)%4), "Mi")),
		}
	}
	if app := &m.template.Containers[0]; of(m.a, 4)%6 == 0 {
		app.Ports = []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
		app.ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: "HTTP",
			}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	if of(m.a, 8)%14 == 0 {
		m.add(corev1.Container{
			Name: "envoy", Image: "r.example.com/mesh/envoy:v1.34.1",
			Args: []string{"-c", "/etc/envoy/envoy.yaml", "--concurrency", "2"},
			Ports: []corev1.ContainerPort{{
				Name: "admin", ContainerPort: 9901, Protocol: corev1.ProtocolTCP,
			}},
		})
	}
	if of(m.a, 9)%50 == 0 {
		m.add(corev1.Container{
			Name: "log-shipper", Image: "r.example.com/observability/fluent-bit:3.2.4", Env: m.env(4),
		})
	}
}

func (m *podMaker) add(c corev1.Container) {
	c.ImagePullPolicy = "IfNotPresent"
	c.TerminationMessagePath, c.TerminationMessagePolicy = "/dev/termination-log", "File"
	m.template.Containers = append(m.template.Containers, c)
	m.names, m.images = append(m.names, c.Name), append(m.images, c.Image)
	sum := digest(nil, of(m.a, 10+uint64(len(m.names))), propContainerID)
	m.digests = append(m.digests, "r.example.com/"+c.Name+"@sha256:"+string(sum))
}

func (m *podMaker) env(n int) []corev1.EnvVar {
	var env []corev1.EnvVar
	for v := range n {
		at := (int(of(m.a, 20)%uint64(len(variables))) + v) % len(variables)
		e := corev1.EnvVar{Name: variables[at], Value: values[at]}
		switch {
		case at == 2:
			e.Value, e.ValueFrom = "", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: m.Name + "-db"}, Key: "url",
			}}
		case at == 10:
			e.Name, e.Value = "POD_IP", ""
			e.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				APIVersion: "v1", FieldPath: "status.podIP",
			}}
		}
		env = append(env, e)
	}
	return env
}

// addRest fills in the rest of the spec, as the API server defaults it.
func (m *podMaker) addRest() {
	s := &m.template
	grace, priority := int64(30), int32(0)
	s.NodeName, s.SchedulerName = mark(blankNode), "default-scheduler"
	s.RestartPolicy, s.DNSPolicy = "Always", "ClusterFirst"
	s.TerminationGracePeriodSeconds, s.ServiceAccountName = &grace, m.Name
	s.Priority = &priority
	s.SecurityContext = &corev1.PodSecurityContext{}
	if of(m.a, 30)%5 == 0 {
		name := m.Name + "-config"
		s.Volumes = append(s.Volumes, corev1.Volume{
			Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: name},
			}},
		})
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "config", MountPath: "/etc/" + m.Name, ReadOnly: true})
	}
	if of(m.a, 31)%10 == 0 {
		s.Volumes = append(s.Volumes, corev1.Volume{
			Name:         "tmp",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
		s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"})
	}
	if of(m.a, 32)%12 == 0 {
		seconds := int64(300)
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{
				Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds,
			})
		}
	}
}

// pod returns a pod in state p.
func (m *podMaker) pod(p Pod) *corev1.Pod {
	start := timeMark(blankScheduled)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.prefix + mark(blankSuffix), GenerateName: m.prefix, Namespace: m.Namespace,
			UID: types.UID(mark(blankUID)), ResourceVersion: mark(blankVersion),
			CreationTimestamp: timeMark(blankCreated),
			Labels:            m.labels,
			Annotations:       map[string]string{SentAnnotation: mark(blankSent)},
			OwnerReferences:   []metav1.OwnerReference{m.owner},
			ManagedFields:     m.managed(),
		},
		Spec: m.template,
		Status: corev1.PodStatus{
			Phase: "Running", HostIP: mark(blankHostIP),
			PodIP: mark(blankPodIP), PodIPs: []corev1.PodIP{{IP: mark(blankPodIP)}},
			StartTime: &start, QOSClass: "Burstable",
		},
	}
	for c, name := range m.names {
		status := corev1.ContainerStatus{
			Name: name, Image: m.images[c], ImageID: m.digests[c],
			ContainerID: "containerd://" + mark(blankContainer0+blank(c)),
			Ready:       true, Started: new(true), State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: timeMark(blankScheduled)},
			},
		}
		if c == 0 {
			m.state(&status, p)
		}
		if p.age < 0 {
			status = corev1.ContainerStatus{
				Name: name, Image: m.images[c], Started: new(false), State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"},
				},
			}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	if p.age < 0 {
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = "Pending", "", nil
	}
	m.conditions(pod, p)
	return pod
}

// state sets the status of the first container.
func (m *podMaker) state(s *corev1.ContainerStatus, p Pod) {
	s.Ready, s.State.Running.StartedAt = p.Ready, timeMark(blankStarted)
	if p.Restarts == 0 {
		return
	}
	s.RestartCount = restartsMark
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", StartedAt: timeMark(blankBorn), FinishedAt: timeMark(blankDied),
		ContainerID: "containerd://" + mark(blankRestarted),
	}
	if p.age == crashed {
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off 5m0s restarting failed container=%s pod=%s%s_%s(%s)",
				s.Name, m.prefix, mark(blankSuffix), m.Namespace, mark(blankUID)),
		}}
		s.Started = new(false)
		s.ContainerID = "containerd://" + mark(blankRestarted)
	}
}

// conditions sets Ready and other conditions. How many depends on the application, as kubelets of
// different versions report different ones.
func (m *podMaker) conditions(pod *corev1.Pod, p Pod) {
	is := func(t corev1.PodConditionType, at blank) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: "True", LastTransitionTime: timeMark(at)}
	}
	ready, containers := is("Ready", blankTransition), is("ContainersReady", blankTransition)
	if !p.Ready {
		why := fmt.Sprintf("containers with unready status: [%s]", m.names[0])
		for _, c := range []*corev1.PodCondition{&ready, &containers} {
			c.Status, c.Reason, c.Message = "False", "ContainersNotReady", why
		}
	}
	switch of(m.a, 33) % 6 {
	case 0:
		pod.Status.Conditions = []corev1.PodCondition{
			is("PodReadyToStartContainers", blankScheduled), is("Initialized", blankScheduled),
			ready, containers, is("PodScheduled", blankCreated),
		}
	case 1, 2:
		pod.Status.Conditions = []corev1.PodCondition{
			is("Initialized", blankScheduled), ready, containers, is("PodScheduled", blankCreated),
		}
	default:
		pod.Status.Conditions = []corev1.PodCondition{ready, is("PodScheduled", blankCreated)}
	}
}
