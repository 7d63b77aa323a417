{{/*
seamline.yaml for each kind of pod, out of `config`. It holds references to secrets, never secrets.
*/}}

{{/* Where pods keep scratch files, and where their configuration is. */}}
{{- define "seamline.stateDirectory" -}}/var/lib/seamline{{- end -}}
{{- define "seamline.configDirectory" -}}/etc/seamline{{- end -}}

{{/*
The configuration of one kind of pod: dict "root" $ "component" NAME "spark" REPLACEMENT.
Only the gateway gets who may use it, and what signs its tokens.
*/}}
{{- define "seamline.config" -}}
{{- $config := deepCopy .root.Values.config -}}
{{- if ne .component "gateway" -}}
{{- $config = omit $config "http" "auth" "audit" "tokens" "limits" -}}
{{- end -}}
{{- with .spark -}}
{{- $_ := set $config "spark" . -}}
{{- end -}}
{{- $_ := set $config "state_directory" (include "seamline.stateDirectory" .root) -}}
{{- include "seamline.pruned" $config -}}
{{- end -}}

{{/* A map without its null or empty values, as YAML. */}}
{{- define "seamline.pruned" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $value = include "seamline.pruned" $value | fromYaml -}}
{{- end -}}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "map" $value) (empty $value)) (and (kindIs "slice" $value) (empty $value))) -}}
{{- $_ := set $kept $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}

{{/* What the gateway speaks: http, or https. */}}
{{- define "seamline.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.config.http.tls.certificate)) -}}
{{- end -}}

{{/* "yes" when a catalog is a SQLite file. */}}
{{- define "seamline.hasSqlite" -}}
{{- range .Values.config.catalogs -}}{{- if hasPrefix "sqlite" .uri -}}yes{{- end -}}{{- end -}}
{{- end -}}

{{/* The Spark of a tierer: dict "root" $ "tierer" ENTRY; empty when it is the common one. */}}
{{- define "seamline.tiererSpark" -}}
{{- with .tierer.spark | default .root.Values.tiererDefaults.spark -}}{{- toYaml . -}}{{- end -}}
{{- end -}}

{{/* Where a pod finds the secret of a name. */}}
{{- define "seamline.secretPath" -}}{{ include "seamline.configDirectory" . }}/secrets/{{ .name }}{{- end -}}

{{/* Sources of the volume that holds the secrets a configuration refers to: dict "root" $ "config" TEXT. */}}
{{- define "seamline.secretSources" -}}
{{- $config := .config -}}
{{- range .root.Values.secrets -}}
{{- if contains (printf "${file:%s}" (include "seamline.secretPath" .)) $config }}
- secret:
    name: {{ .secret | quote }}
    items:
      - key: {{ .key | quote }}
        path: secrets/{{ .name }}
{{- end -}}
{{- end -}}
{{- end -}}
