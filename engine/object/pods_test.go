package object

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// cluster makes pods as an API server sends them. They belong to a few dozen deployments, and the
// pods of one resemble each other.
type cluster struct {
	r           *rand.Rand
	deployments []deployment
}

type deployment struct {
	namespace, name, hash, uid string
	containers                 []container
	volumes                    []string
	labels                     string
}

type container struct{ name, image, digest, env, resources string }

func newCluster(seed uint64, deployments int) *cluster {
	c := &cluster{r: rand.New(rand.NewPCG(seed, 1))}
	for range deployments {
		d := deployment{
			namespace: c.one("shop", "pay", "search", "platform", "monitoring"), hash: c.letters(9), uid: c.uid(),
			name: c.one("web", "cart", "orders", "ledger", "mail", "indexer", "auth", "gateway") + "-" + c.one("api", "worker", "cache", "proxy", "cron"),
		}
		d.labels = fmt.Sprintf(`"app.kubernetes.io/name":%q,"team":%q,"tier":%q,"pod-template-hash":%q`,
			d.name, c.one("red", "blue", "green", "sre"), c.one("front", "back", "data"), d.hash)
		for n := range 1 + c.r.IntN(12)/11 {
			k := container{
				name: c.one("main", "app", "server"), digest: c.hex(64),
				image:     fmt.Sprintf("registry.example.com/%s/%s:%d.%d.%d", d.namespace, d.name, c.r.IntN(9), c.r.IntN(30), c.r.IntN(9)),
				resources: fmt.Sprintf(`{"limits":{"memory":"%dMi"},"requests":{"cpu":"%dm","memory":"%dMi"}}`, 64<<c.r.IntN(5), 50*(1+c.r.IntN(9)), 64<<c.r.IntN(4)),
			}
			if n == 1 {
				k.name = "sidecar"
			}
			var env []string
			for range 1 + c.r.IntN(2) {
				env = append(env, fmt.Sprintf(`{"name":%q,"value":%q}`, c.one("LOG_LEVEL", "DATABASE_URL", "QUEUE", "FEATURES", "REGION", "TIMEOUT"),
					c.one("info", "postgres://db."+d.namespace+".svc:5432/"+d.name, "amqp://mq:5672", "a,b,c", "eu-central-1", "30s")))
			}
			k.env = strings.Join(env, ",")
			d.containers = append(d.containers, k)
		}
		if c.r.IntN(2) == 0 {
			d.volumes = append(d.volumes, fmt.Sprintf(`{"configMap":{"defaultMode":420,"name":"%s-config"},"name":"config"}`, d.name))
		}
		c.deployments = append(c.deployments, d)
	}
	return c
}

func (c *cluster) one(of ...string) string { return of[c.r.IntN(len(of))] }

func (c *cluster) from(alphabet string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[c.r.IntN(len(alphabet))]
	}
	return string(out)
}

func (c *cluster) letters(n int) string { return c.from("bcdfghjklmnpqrstvwxz2456789", n) }
func (c *cluster) hex(n int) string     { return c.from("0123456789abcdef", n) }

func (c *cluster) uid() string {
	return c.hex(8) + "-" + c.hex(4) + "-4" + c.hex(3) + "-a" + c.hex(3) + "-" + c.hex(12)
}

func (c *cluster) time() string {
	return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", 1+c.r.IntN(9), 1+c.r.IntN(28), c.r.IntN(24), c.r.IntN(60), c.r.IntN(60))
}

// pod returns a running pod with one container, without white space. It has about 2.8 KB, 0.8 KB of
// which are managedFields.
func (c *cluster) pod() string {
	d := c.deployments[c.r.IntN(len(c.deployments))]
	access, started, ready := "kube-api-access-"+c.letters(5), c.time(), c.time()
	node := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", c.r.IntN(4), c.r.IntN(256))
	var specs, statuses []string
	for _, k := range d.containers {
		specs = append(specs, fmt.Sprintf(`{"env":[%s],"image":%q,"name":%q,`+
			`"resources":%s,"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":%q,"readOnly":true}]}`, k.env, k.image, k.name, k.resources, access))
		statuses = append(statuses, fmt.Sprintf(`{"containerID":"containerd://%s","image":%q,"imageID":"registry.example.com/%s@sha256:%s",`+
			`"name":%q,"ready":true,"restartCount":%d,"state":{"running":{"startedAt":%q}}}`, c.hex(64), k.image, d.name, k.digest, k.name, c.r.IntN(8), ready))
	}
	condition := func(kind, at string) string {
		return fmt.Sprintf(`{"lastTransitionTime":%q,"status":"True","type":%q}`, at, kind)
	}
	volumes := append([]string{fmt.Sprintf(`{"name":%q,"projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607}}]}}`, access)}, d.volumes...)
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":%q,"generateName":"%s-%s-","labels":{%s},"managedFields":%s,`+
		`"name":"%s-%s-%s","namespace":%q,"ownerReferences":[{"apiVersion":"apps/v1","controller":true,"kind":"ReplicaSet","name":"%s-%s","uid":%q}],`+
		`"resourceVersion":"%d","uid":%q},"spec":{"containers":[%s],"nodeName":%q,`+
		`"serviceAccountName":"default","terminationGracePeriodSeconds":30,`+
		`"volumes":[%s]},`+
		`"status":{"conditions":[%s],"containerStatuses":[%s],"hostIP":"10.0.%d.%d","phase":"Running","podIP":"10.%d.%d.%d","qosClass":"Burstable","startTime":%q}}`,
		started, d.name, d.hash, d.labels, managedFieldsOf(started, ready),
		d.name, d.hash, c.letters(5), d.namespace, d.name, d.hash, d.uid,
		1_000_000+c.r.IntN(9_000_000), c.uid(), strings.Join(specs, ","), node, strings.Join(volumes, ","),
		strings.Join([]string{condition("PodScheduled", started), condition("ContainersReady", ready), condition("Ready", ready)}, ","),
		strings.Join(statuses, ","), c.r.IntN(4), c.r.IntN(256), c.r.IntN(256), c.r.IntN(256), c.r.IntN(256), started)
}

func managedFieldsOf(created, updated string) string {
	return `[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:team":{}},` +
		`"f:ownerReferences":{".":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{},"f:image":{},"f:name":{},"f:resources":{}}},"f:dnsPolicy":{},` +
		`"f:restartPolicy":{},"f:schedulerName":{}}},"manager":"kube-controller-manager","operation":"Update","time":"` + created + `"},` +
		`{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{}}},` +
		`"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:startTime":{}}},"manager":"kubelet","operation":"Update","subresource":"status","time":"` + updated + `"}]`
}
