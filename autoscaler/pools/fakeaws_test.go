package pools

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// fakeAWS is a fake of the AWS calls in use: Auto Scaling and EC2 by their query protocol, SQS by
// its JSON protocol. It follows the sample answers of the API references and has never been
// compared with AWS itself. It has one group.
type fakeAWS struct {
	t *testing.T

	mu                  sync.Mutex
	min, max, desired   int
	instances           []instance
	tags                map[string]string
	status              string // of a group that is being deleted
	unit, weight        string // of its size, and of its instances
	prices              map[string]string
	messages            map[string]string // by receipt handle
	refused             int               // requests not signed as they should be
	fail                string            // an error code for every request
	described, received int
}

type instance struct{ ID, State string }

func (d *fakeAWS) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	auth := r.Header.Get("Authorization")
	if !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") || !strings.Contains(auth, "/eu-west-1/") {
		d.refused++
		http.Error(rw, "<ErrorResponse><Error><Code>MissingAuthenticationToken</Code></Error></ErrorResponse>", http.StatusForbidden)
		return
	}
	if d.fail != "" {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(rw, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>the fake fails as requested</Message></Error></ErrorResponse>", d.fail)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Error(err)
	}
	if action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS."); ok {
		d.sqs(rw, action, body)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		d.t.Error(err)
	}
	d.query(rw, form)
}

func (d *fakeAWS) query(rw http.ResponseWriter, form url.Values) {
	switch action := form.Get("Action"); action {
	case "DescribeAutoScalingGroups":
		d.described++
		d.describe(rw, form.Get("AutoScalingGroupNames.member.1") == "h100")
	case "SetDesiredCapacity":
		n, err := strconv.Atoi(form.Get("DesiredCapacity"))
		if err != nil || n > d.max || n < d.min {
			d.invalid(rw, fmt.Sprintf("New SetDesiredCapacity value %s is not between %d and %d", form.Get("DesiredCapacity"), d.min, d.max))
			return
		}
		d.desired = n
		_, _ = io.WriteString(rw, `<SetDesiredCapacityResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><ResponseMetadata><RequestId>9fb7e2db</RequestId></ResponseMetadata></SetDesiredCapacityResponse>`)
	case "TerminateInstanceInAutoScalingGroup":
		d.terminate(rw, form)
	case "DescribeSpotPriceHistory":
		if form.Get("InstanceType.1") != "p5.48xlarge" || form.Get("ProductDescription.1") != "Linux/UNIX" || form.Get("StartTime") == "" {
			d.t.Errorf("prices of %v", form)
		}
		_, _ = io.WriteString(rw, `<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>59dbff89</requestId><spotPriceHistorySet>`)
		for zone, price := range d.prices {
			_, _ = fmt.Fprintf(rw, `<item><instanceType>%s</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>%s</spotPrice><timestamp>2026-11-21T08:55:00.000Z</timestamp><availabilityZone>%s</availabilityZone></item>`, form.Get("InstanceType.1"), price, zone)
		}
		_, _ = io.WriteString(rw, `</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>`)
	default:
		d.t.Errorf("the fake knows no action %q", action)
		d.invalid(rw, "no such action")
	}
}

func (d *fakeAWS) terminate(rw http.ResponseWriter, form url.Values) {
	at := slices.IndexFunc(d.instances, func(i instance) bool { return i.ID == form.Get("InstanceId") })
	decrement := form.Get("ShouldDecrementDesiredCapacity") == "true"
	switch {
	case at < 0:
		d.invalid(rw, "Instance Id not found - No managed instance found for instance ID "+form.Get("InstanceId"))
		return
	case decrement && d.desired <= d.min:
		d.invalid(rw, "Currently, desiredSize equals minSize. Terminating instance without replacement will violate group's min size constraint.")
		return
	}
	d.instances[at].State = "Terminating"
	if decrement {
		d.desired--
	}
	_, _ = fmt.Fprintf(rw, `<TerminateInstanceInAutoScalingGroupResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><TerminateInstanceInAutoScalingGroupResult><Activity><ActivityId>cczc44a87</ActivityId><AutoScalingGroupName>h100</AutoScalingGroupName><StatusCode>InProgress</StatusCode><Progress>0</Progress><StartTime>2026-11-21T09:00:00Z</StartTime><Cause>a user request</Cause><Description>Terminating EC2 instance: %s</Description></Activity></TerminateInstanceInAutoScalingGroupResult><ResponseMetadata><RequestId>8d798a29</RequestId></ResponseMetadata></TerminateInstanceInAutoScalingGroupResponse>`, form.Get("InstanceId"))
}

func (d *fakeAWS) invalid(rw http.ResponseWriter, message string) {
	rw.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(rw, `<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><Error><Type>Sender</Type><Code>ValidationError</Code><Message>%s</Message></Error><RequestId>9fb7e2db</RequestId></ErrorResponse>`, message)
}

var groupAnswer = template.Must(template.New("group").Parse(`<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><DescribeAutoScalingGroupsResult><AutoScalingGroups>{{with .}}<member>
<AutoScalingGroupName>h100</AutoScalingGroupName><AutoScalingGroupARN>arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:12345678:autoScalingGroupName/h100</AutoScalingGroupARN>
<MinSize>{{.Min}}</MinSize><MaxSize>{{.Max}}</MaxSize><DesiredCapacity>{{.Desired}}</DesiredCapacity><DefaultCooldown>300</DefaultCooldown>
<AvailabilityZones><member>eu-west-1a</member><member>eu-west-1b</member></AvailabilityZones><HealthCheckType>EC2</HealthCheckType><HealthCheckGracePeriod>0</HealthCheckGracePeriod>
<Instances>{{range .Instances}}<member><InstanceId>{{.ID}}</InstanceId><InstanceType>p5.48xlarge</InstanceType><AvailabilityZone>eu-west-1a</AvailabilityZone><LifecycleState>{{.State}}</LifecycleState><HealthStatus>Healthy</HealthStatus>{{with $.Weight}}<WeightedCapacity>{{.}}</WeightedCapacity>{{end}}<ProtectedFromScaleIn>false</ProtectedFromScaleIn></member>{{end}}</Instances>
<CreatedTime>2026-11-01T09:00:00.000Z</CreatedTime>{{with .Status}}<Status>{{.}}</Status>{{end}}{{with .Unit}}<DesiredCapacityType>{{.}}</DesiredCapacityType>{{end}}
<Tags>{{range $k, $v := .Tags}}<member><ResourceId>h100</ResourceId><ResourceType>auto-scaling-group</ResourceType><Key>{{$k}}</Key><Value>{{$v}}</Value><PropagateAtLaunch>true</PropagateAtLaunch></member>{{end}}</Tags>
</member>{{end}}</AutoScalingGroups></DescribeAutoScalingGroupsResult><ResponseMetadata><RequestId>7c6e177f</RequestId></ResponseMetadata></DescribeAutoScalingGroupsResponse>`))

func (d *fakeAWS) describe(rw io.Writer, there bool) {
	var group any
	if there {
		group = struct {
			Min, Max, Desired int
			Instances         []instance
			Status            string
			Unit, Weight      string
			Tags              map[string]string
		}{d.min, d.max, d.desired, d.instances, d.status, d.unit, d.weight, d.tags}
	}
	if err := groupAnswer.Execute(rw, group); err != nil {
		d.t.Error(err)
	}
}

func (d *fakeAWS) sqs(rw http.ResponseWriter, action string, body []byte) {
	var in struct {
		QueueUrl, ReceiptHandle                string
		MaxNumberOfMessages, VisibilityTimeout int
	}
	if err := json.Unmarshal(body, &in); err != nil || in.QueueUrl != testQueue || action == "ReceiveMessage" && (in.MaxNumberOfMessages != 10 || in.VisibilityTimeout != 60) {
		d.t.Errorf("%s: %s: %v", action, body, err)
	}
	out := map[string]any{}
	switch action {
	case "ReceiveMessage":
		d.received++
		var list []map[string]string
		for handle, text := range d.messages {
			list = append(list, map[string]string{"MessageId": handle, "ReceiptHandle": handle, "MD5OfBody": fmt.Sprintf("%x", md5.Sum([]byte(text))), "Body": text})
		}
		if len(list) > 0 {
			out["Messages"] = list
		}
	case "DeleteMessage":
		delete(d.messages, in.ReceiptHandle)
	default:
		d.t.Errorf("the fake knows no action %q", action)
	}
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err := json.NewEncoder(rw).Encode(out); err != nil {
		d.t.Error(err)
	}
}

const testQueue = "https://queue.example/123456789012/interruptions"

var testNow = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// asgWorld is a group of three with their nodes, and the provider over the fake.
type asgWorld struct {
	*world
	fake *fakeAWS
	asg  *ASG
	now  time.Time
}

func newASGWorld(t *testing.T) *asgWorld {
	t.Helper()
	fake := &fakeAWS{t: t, min: 0, max: 10, desired: 3, tags: map[string]string{poolTag: "p"}, prices: map[string]string{}, messages: map[string]string{}}
	nodes := members()
	for i, o := range nodes {
		id := fmt.Sprintf("i-0123456789abcdef%d", i)
		fake.instances = append(fake.instances, instance{id, "InService"})
		o.(*corev1.Node).Spec.ProviderID = "aws:///eu-west-1a/" + id
	}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	w := &asgWorld{world: newScaleWorld(t, v1alpha1.ScaleProvider{}, nodes...), fake: fake, now: testNow}
	w.pool.Spec.Provider = v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "h100", Region: "eu-west-1"}}
	w.asg = NewASG(ASGOptions{Live: w.client, Now: func() time.Time { return w.now }, Config: func(_ context.Context, region string) (aws.Config, error) {
		return aws.Config{
			Region: region, BaseEndpoint: aws.String(server.URL), HTTPClient: server.Client(), RetryMaxAttempts: 1,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret"}, nil
			}),
		}, nil
	}})
	return w
}

func (w *asgWorld) list() (Listing, error) {
	w.asg.memo.forget(w.pool)
	return w.asg.List(w.t.Context(), w.pool)
}

func (w *asgWorld) states() string {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	var out []string
	for _, i := range w.fake.instances {
		out = append(out, i.State)
	}
	return strings.Join(out, " ")
}
