{{/*
What the pods of gateway, tierers and maintenance share: they run as an unprivileged user, on a
read-only root file system, with scratch space of a known size.
Each takes dict "root" $ "component" NAME "values" VALUES-OF-THAT-COMPONENT and, where it says so, more.
*/}}

{{/*
Metadata; also "config" TEXT and "labels" FURTHER-LABELS. Versions are not among the labels, so that a
new chart alone restarts no pod.
*/}}
{{- define "seamline.podMetadata" -}}
labels:
  {{- include "seamline.selector" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  # A pod reads its configuration when it starts: a changed one is another pod.
  checksum/config: {{ sha256sum .config }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Settings of the pod around its container. */}}
{{- define "seamline.podSettings" -}}
serviceAccountName: {{ include "seamline.serviceAccountName" .root | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Settings of the container besides its name, arguments, ports and probes; also "config" and "resources". */}}
{{- define "seamline.containerSettings" -}}
image: {{ include "seamline.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
workingDir: {{ include "seamline.stateDirectory" .root }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: SEAMLINE_CONFIG
    value: {{ include "seamline.configDirectory" .root }}/seamline.yaml
  - name: HOME
    value: {{ include "seamline.stateDirectory" .root }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml .resources | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: {{ include "seamline.configDirectory" .root }}
    readOnly: true
  - name: scratch
    mountPath: {{ include "seamline.stateDirectory" .root }}
  - name: tmp
    mountPath: /tmp
  {{- range $index, $files := .root.Values.secretFiles }}
  - name: secret-{{ $index }}
    mountPath: {{ $files.mountPath | quote }}
    readOnly: true
  {{- end }}
  {{- if .root.Values.sharedVolume.existingClaim }}
  - name: shared
    mountPath: {{ .root.Values.sharedVolume.mountPath | quote }}
  {{- end }}
{{- end -}}

{{/* Volumes; also "config" TEXT, "configKey" KEY-OF-THE-CONFIGMAP and "scratchSize". */}}
{{- define "seamline.volumes" -}}
- name: config
  projected:
    defaultMode: 0440
    sources:
      - configMap:
          name: {{ include "seamline.fullname" .root | quote }}
          items:
            - key: {{ .configKey }}
              path: seamline.yaml
      {{- with include "seamline.secretSources" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
- name: scratch
  emptyDir:
    sizeLimit: {{ .scratchSize | quote }}
- name: tmp
  emptyDir:
    sizeLimit: 1Gi
{{- range $index, $files := .root.Values.secretFiles }}
- name: secret-{{ $index }}
  secret:
    secretName: {{ $files.secret | quote }}
    defaultMode: 0440
{{- end }}
{{- if .root.Values.sharedVolume.existingClaim }}
- name: shared
  persistentVolumeClaim:
    claimName: {{ .root.Values.sharedVolume.existingClaim | quote }}
{{- end }}
{{- end -}}
