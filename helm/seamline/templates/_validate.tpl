{{/*
What the schema cannot say: values that fit their types and still make no working installation. Each
rule has a name, tells what is wrong, and names the remedy; all that apply are shown at once.
A rule is a template that gives lines `NAME: what is wrong. Remedy.`, or nothing.
*/}}

{{- define "seamline.validate" -}}
{{- $found := list -}}
{{- range $rules := list "catalogs" "clusters" "access" "secrets" "shared" "spark" "sizes" "ingress" "autoscaling" "tierers" "maintenance" "monitoring" -}}
{{- range $line := splitList "\n" (include (printf "seamline.validate.%s" $rules) $) -}}
{{- with trim $line -}}{{- $found = append $found (printf "  - %s" .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if $found -}}
{{- fail (printf "\n\nThese values cannot work:\n%s\n" (join "\n" $found)) -}}
{{- end -}}
{{- end -}}

{{/* --- Where the data is ------------------------------------------------------------------------ */}}

{{- define "seamline.validate.catalogs" -}}
{{- $config := .Values.config -}}
{{- if not $config.catalogs }}
CATALOG_MISSING: config.catalogs names no Iceberg catalog. Write config.catalogs.<name> with type, uri and warehouse.
{{- end }}
{{- if and (gt (len $config.catalogs) 1) (not $config.default_catalog) }}
DEFAULT_CATALOG_MISSING: config.catalogs has several catalogs. Set config.default_catalog to the one that names without a catalog mean.
{{- end }}
{{- if and $config.catalogs $config.default_catalog (not (hasKey $config.catalogs (toString $config.default_catalog))) }}
DEFAULT_CATALOG_UNKNOWN: config.default_catalog {{ $config.default_catalog }} is not under config.catalogs. Correct one of them.
{{- end }}
{{- range $name, $catalog := $config.catalogs }}
{{- range $key := list "type" "uri" "warehouse" }}
{{- if not (get $catalog $key) }}
CATALOG_INCOMPLETE: config.catalogs.{{ $name }} has no {{ $key }}. Write config.catalogs.{{ $name }}.{{ $key }}.
{{- end }}
{{- end }}
{{- if hasKey $config.clusters $name }}
NAME_TWICE: {{ $name }} names a catalog and a cluster. Rename one of them.
{{- end }}
{{- $shared := $.Values.sharedVolume }}
{{- $path := regexReplaceAll "^(file://|file:)" (toString $catalog.warehouse) "" }}
{{- if and $catalog.warehouse (not (regexMatch "^[a-z][a-z0-9+.-]*://" $path)) (hasPrefix "/" $path) }}
{{- if not (and $shared.existingClaim (hasPrefix (printf "%s/" $shared.mountPath) $path)) }}
LOCAL_WAREHOUSE: the warehouse of config.catalogs.{{ $name }} is {{ $catalog.warehouse }}, a path inside one pod. Use object storage (s3://…), or a path under sharedVolume.mountPath with sharedVolume.existingClaim.
{{- end }}
{{- end }}
{{- if hasPrefix "sqlite" (toString $catalog.uri) }}
{{- $file := regexReplaceAll "^sqlite[^:]*:///([^?]*).*$" (toString $catalog.uri) "${1}" }}
{{- if include "seamline.severalPods" $ }}
SQLITE_SHARED: config.catalogs.{{ $name }} is a SQLite file, which several pods cannot share. Use a catalog with a server (type rest, or sql on PostgreSQL), or one gateway replica without tierers and maintenance.
{{- else if not (and $shared.existingClaim (hasPrefix (printf "%s/" $shared.mountPath) $file)) }}
SQLITE_LOST: config.catalogs.{{ $name }} is a SQLite file inside a pod and is lost with it. Use a catalog with a server, or a path under sharedVolume.mountPath with sharedVolume.existingClaim.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.clusters" -}}
{{- $config := .Values.config -}}
{{- if not $config.clusters }}
CLUSTER_MISSING: config.clusters names no Kafka cluster. Write config.clusters.<name>.bootstrap_servers.
{{- end }}
{{- if and (gt (len $config.clusters) 1) (not $config.default_cluster) }}
DEFAULT_CLUSTER_MISSING: config.clusters has several clusters. Set config.default_cluster to the one that new tables read from.
{{- end }}
{{- if and $config.clusters $config.default_cluster (not (hasKey $config.clusters (toString $config.default_cluster))) }}
DEFAULT_CLUSTER_UNKNOWN: config.default_cluster {{ $config.default_cluster }} is not under config.clusters. Correct one of them.
{{- end }}
{{- range $name, $cluster := $config.clusters }}
{{- if not $cluster.bootstrap_servers }}
BOOTSTRAP_SERVERS_MISSING: config.clusters.{{ $name }} has no bootstrap_servers. Write them as host:port, comma-separated.
{{- end }}
{{- end }}
{{- end -}}

{{/* "yes" when more than one pod reads the catalogs. */}}
{{- define "seamline.severalPods" -}}
{{- if or (include "seamline.severalReplicas" .) .Values.tierers .Values.maintenance.enabled -}}yes{{- end -}}
{{- end -}}

{{/* "yes" when there may be more than one gateway. */}}
{{- define "seamline.severalReplicas" -}}
{{- $gateway := .Values.gateway -}}
{{- $most := ternary $gateway.autoscaling.maxReplicas $gateway.replicas $gateway.autoscaling.enabled -}}
{{- if gt (int $most) 1 -}}yes{{- end -}}
{{- end -}}

{{/* --- Who may see it --------------------------------------------------------------------------- */}}

{{- define "seamline.validate.access" -}}
{{- $config := .Values.config -}}
{{- if regexMatch "^(127\\.|localhost$|::1$)" $config.http.host }}
HOST_LOOPBACK: config.http.host is {{ $config.http.host }}, where neither probes nor the Service reach the gateway. Use 0.0.0.0, or "::" with IPv6 only.
{{- else if not (or $config.auth.tokens $config.auth.token_file $config.auth.passwords $config.auth.jwt.jwks $config.http.tls.client_ca) }}
AUTH_MISSING: the gateway listens on {{ $config.http.host }} without authentication, so it would refuse to start. Write config.auth.tokens as {name, sha256: ${file:/etc/seamline/secrets/NAME}} and name the Secret under secrets.
{{- end }}
{{- end -}}

{{- define "seamline.validate.secrets" -}}
{{- $values := .Values -}}
{{- $known := list "SEAMLINE_CONFIG" "HOME" -}}
{{- range $values.extraEnv -}}
{{- if has .name $known }}
VARIABLE_TWICE: {{ .name }} is set twice: in extraEnv, or by the chart itself. Remove one.
{{- end -}}
{{- $known = append $known .name -}}
{{- end -}}
{{- $files := list -}}
{{- range $values.secrets -}}
{{- $file := include "seamline.secretPath" . -}}
{{- if has $file $files }}
SECRET_TWICE: secrets has two entries named {{ .name }}. Remove one.
{{- end -}}
{{- $files = append $files $file -}}
{{- end -}}
{{- range $values.extraEnv -}}
{{- if and (include "seamline.isSecretName" .name) (include "seamline.isLiteral" .value) }}
SECRET_IN_VALUES: extraEnv.{{ .name }} looks like a secret and would be readable in the pod's description. Put it into a Secret, name that under secrets, and refer to its file in config.
{{- end -}}
{{- end -}}
{{- $trees := dict "config" $values.config "tiererDefaults.spark" $values.tiererDefaults.spark "maintenance.spark" $values.maintenance.spark -}}
{{- range $values.tierers -}}
{{- $_ := set $trees (printf "tierers.%s.spark" .name) .spark -}}
{{- end -}}
{{- range $path, $tree := $trees -}}
{{- include "seamline.validate.literals" (dict "path" $path "value" $tree) -}}
{{- $text := toYaml $tree -}}
{{- range regexFindAll "\\$\\{env:[^}]*\\}" $text -1 | uniq -}}
{{- $name := . | trimPrefix "${env:" | trimSuffix "}" -}}
{{- if not (has $name $known) }}
SECRET_UNKNOWN: {{ $path }} refers to {{ . }}, which no pod gets. Add {name: {{ $name }}, secret, key} to secrets, and write ${file:/etc/seamline/secrets/{{ $name }}}.
{{- end -}}
{{- end -}}
{{- range regexFindAll "\\$\\{file:[^}]*\\}" $text -1 | uniq -}}
{{- $reference := . -}}
{{- $file := $reference | trimPrefix "${file:" | trimSuffix "}" -}}
{{- $mounted := has $file $files -}}
{{- range $values.secretFiles -}}
{{- if hasPrefix (printf "%s/" .mountPath) $file -}}{{- $mounted = true -}}{{- end -}}
{{- end -}}
{{- if not $mounted }}
SECRET_UNKNOWN: {{ $path }} refers to {{ $reference }}, which no pod gets. Name its Secret under secrets, or mount it with secretFiles.
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Secrets in plain text, at any depth: dict "path" PATH "value" ANYTHING. */}}
{{- define "seamline.validate.literals" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value -}}
{{- range $key, $value := .value -}}
{{- include "seamline.validate.literals" (dict "path" (printf "%s.%s" $path $key) "key" $key "value" $value) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $value := .value -}}
{{- include "seamline.validate.literals" (dict "path" (printf "%s.%d" $path $index) "value" $value) -}}
{{- end -}}
{{- else if kindIs "string" .value -}}
{{- $named := and .key (include "seamline.isSecretName" .key) (include "seamline.isLiteral" .value) -}}
{{- if or $named (regexMatch "://[^/@:]*:[^@/]+@" (regexReplaceAll "\\$\\{[^}]*\\}" .value "")) }}
SECRET_IN_CONFIG: {{ $path }} contains a secret, and the configuration is a ConfigMap. Put it into a Secret, name that under secrets, and write ${file:/etc/seamline/secrets/NAME} here.
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "seamline.isSecretName" -}}
{{- $name := lower . -}}
{{- if and (regexMatch "secret|password|token|credential|sasl\\.jaas|sha256|access[-_]key" $name) (not (regexMatch "(url|uri|enabled|endpoint|path|location|file|passwords|seconds_max)$" $name)) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" for a string that is neither empty nor a reference nor a boolean. */}}
{{- define "seamline.isLiteral" -}}
{{- $text := toString . -}}
{{- if and $text (not (contains "${" $text)) (not (has $text (list "true" "false"))) -}}yes{{- end -}}
{{- end -}}

{{/* --- How it runs ------------------------------------------------------------------------------ */}}

{{- define "seamline.validate.shared" -}}
{{- if include "seamline.severalReplicas" . }}
{{- if not .Values.config.tokens.secret }}
TOKENS_SECRET_MISSING: with several gateways one does not accept a token that another signed. Write config.tokens.secret: ${file:/etc/seamline/secrets/NAME} and name the Secret under secrets.
{{- end }}
{{- if ne .Values.gateway.service.sessionAffinity "ClientIP" }}
AFFINITY_MISSING: a statement lives in the gateway that accepted it, and with gateway.service.sessionAffinity {{ .Values.gateway.service.sessionAffinity }} its client may reach another one. Use ClientIP, or one replica.
{{- end }}
{{- if and .Values.gateway.ingress.enabled (not .Values.gateway.ingress.annotations) }}
INGRESS_AFFINITY_MISSING: ingress controllers bypass the Service's sessionAffinity, and with several gateways a client must stay with one. Set your controller's annotations for that in gateway.ingress.annotations.
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.spark" -}}
{{- $spark := .Values.config.spark -}}
{{- if and (not $spark.remote) (not .Values.gateway.localSpark) }}
SPARK_REMOTE_MISSING: large scans go to Spark, and the gateway has none. Write config.spark.remote: sc://host:port, or set gateway.localSpark and give the pods memory for it.
{{- end }}
{{- if and $spark.remote .Values.gateway.localSpark }}
SPARK_TWICE: config.spark.remote is {{ $spark.remote }} and gateway.localSpark is set, too. Remove one.
{{- end }}
{{- range $path, $entry := dict "config.spark" $spark "tiererDefaults.spark" .Values.tiererDefaults.spark "maintenance.spark" .Values.maintenance.spark }}
{{- with $entry }}
{{- if and (not .remote) (not (hasPrefix "local" (.master | default "local[*]"))) }}
SPARK_MASTER: {{ $path }}.master is {{ .master }}, whose executors cannot reach a driver in these pods. Use local[…], or run a Spark Connect server there and write {{ $path }}.remote.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.sizes" -}}
{{- $gateway := .Values.gateway -}}
{{- $limits := .Values.config.limits -}}
{{- $gibibyte := 1073741824 -}}
{{- $driver := include "seamline.sparkBytes" .Values.config.spark.driver_memory | int64 -}}
{{- with (($gateway.resources).limits).memory }}
{{- $needed := add (mul 2 ($limits.statements_running_max | int64) (include "seamline.bytes" $limits.memory_bytes | int64)) 536870912 -}}
{{- if $gateway.localSpark }}{{ $needed = add $needed $driver }}{{ end }}
{{- if lt (include "seamline.bytes" . | int64) $needed }}
GATEWAY_MEMORY_SMALL: gateway.resources.limits.memory is {{ . }}, and the configuration may use {{ divf $needed $gibibyte | printf "%.1f" }}Gi: config.limits.statements_running_max statements of twice memory_bytes each, 512Mi{{ if $gateway.localSpark }} and config.spark.driver_memory{{ end }}. Raise the one or lower the others.
{{- end }}
{{- end }}
{{- $needed := add (include "seamline.bytes" $limits.spill_bytes | int64) (include "seamline.bytes" $limits.result_bytes | int64) }}
{{- if lt (include "seamline.bytes" $gateway.scratchSize | int64) $needed }}
SCRATCH_SMALL: gateway.scratchSize is {{ $gateway.scratchSize }}, and one statement may use {{ divf $needed $gibibyte | printf "%.1f" }}Gi (config.limits.spill_bytes and result_bytes), for which the pod would be evicted. Raise the one or lower the others.
{{- end }}
{{- $batches := dict -}}
{{- if .Values.maintenance.enabled -}}
{{- $_ := set $batches "maintenance" (dict "resources" .Values.maintenance.resources "spark" (.Values.maintenance.spark | default .Values.config.spark)) -}}
{{- end -}}
{{- range .Values.tierers -}}
{{- $spark := .spark | default $.Values.tiererDefaults.spark | default $.Values.config.spark -}}
{{- $_ := set $batches (printf "tierers.%s" .name) (dict "resources" (.resources | default $.Values.tiererDefaults.resources) "spark" $spark) -}}
{{- end -}}
{{- range $path, $batch := $batches }}
{{- $needed := add (include "seamline.sparkBytes" ($batch.spark.driver_memory | default "2g") | int64) $gibibyte }}
{{- with (($batch.resources).limits).memory }}
{{- if and (not $batch.spark.remote) (lt (include "seamline.bytes" . | int64) $needed) }}
BATCH_MEMORY_SMALL: the memory limit of {{ $path }} is {{ . }}, and its Spark may use {{ divf $needed $gibibyte | printf "%.1f" }}Gi: driver_memory, and 1Gi for Python workers. Raise the one or lower the other.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.ingress" -}}
{{- $ingress := .Values.gateway.ingress -}}
{{- if $ingress.enabled }}
{{- if not $ingress.hosts }}
INGRESS_HOST_MISSING: gateway.ingress is enabled without hosts. Write gateway.ingress.hosts.
{{- end }}
{{- if not (or $ingress.tls $ingress.allowPlainHttp) }}
INGRESS_TLS_MISSING: without gateway.ingress.tls, bearer tokens cross the network in the clear. Write gateway.ingress.tls as {secretName, hosts}; if TLS is terminated before the Ingress, set gateway.ingress.allowPlainHttp.
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.clients) }}
INGRESS_SHUT_OUT: the network policy lets only the release's namespace reach the gateway, and an Ingress controller is seldom in it. Name its pods in networkPolicy.clients, as {namespaceSelector, podSelector}.
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.autoscaling" -}}
{{- $autoscaling := .Values.gateway.autoscaling -}}
{{- if $autoscaling.enabled }}
{{- if gt (int $autoscaling.minReplicas) (int $autoscaling.maxReplicas) }}
AUTOSCALING_RANGE: gateway.autoscaling.minReplicas is {{ $autoscaling.minReplicas }} and maxReplicas {{ $autoscaling.maxReplicas }}. Swap them.
{{- end }}
{{- if not ((.Values.gateway.resources).requests).cpu }}
AUTOSCALING_WITHOUT_REQUEST: gateway.autoscaling aims at a share of gateway.resources.requests.cpu, which is not set. Set it.
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.tierers" -}}
{{- $names := list -}}
{{- $owners := dict -}}
{{- range $tierer := .Values.tierers -}}
{{- if has .name $names }}
TIERER_TWICE: two tierers are named {{ .name }}. Rename one.
{{- end -}}
{{- $names = append $names .name -}}
{{- range .tables -}}
{{- if hasKey $owners . }}
TABLE_TWICE: table {{ . }} is tiered by {{ get $owners . }} and {{ $tierer.name }}. Both would do all the work, and half of their commits would be lost; list it once.
{{- end -}}
{{- $_ := set $owners . $tierer.name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "seamline.validate.maintenance" -}}
{{- $maintenance := .Values.maintenance -}}
{{- if $maintenance.enabled }}
{{- if not $maintenance.tables }}
MAINTENANCE_TABLES_MISSING: maintenance is enabled without tables. Write maintenance.tables.
{{- end }}
{{- with $maintenance.expireOlderThan }}
{{- if lt (include "seamline.seconds" . | int) (int $.Values.config.limits.statement_seconds_max) }}
EXPIRES_TOO_EARLY: maintenance.expireOlderThan is {{ . }}, and a statement may read its snapshot for config.limits.statement_seconds_max, {{ $.Values.config.limits.statement_seconds_max }} s. Expire later.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "seamline.validate.monitoring" -}}
{{- $monitor := .Values.monitoring.serviceMonitor -}}
{{- if and $monitor.enabled (not $monitor.bearerToken.secret) }}
METRICS_TOKEN_MISSING: the gateway gives metrics only to authenticated clients. Name a Secret with one of its bearer tokens in monitoring.serviceMonitor.bearerToken.secret.
{{- end }}
{{- end -}}
